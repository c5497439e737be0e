package api

import (
	"io"
	"net/http"
	"time"

	"patchbay/internal/backup"
	"patchbay/internal/control"
)

// Operations.
var (
	Status            = define("GET /api/v1/status", "Tell which version runs, on which database, whether it is ready, and which other instances there are", (*control.Service).Status)
	EffectiveConfig   = define("GET /api/v1/settings", "Tell the settings of the instance, without secrets", (*control.Service).EffectiveConfig)
	Drain             = define("POST /api/v1/drain", "Send the devices of this instance to the others, before it is stopped", (*control.Service).Drain)
	Undrain           = define("DELETE /api/v1/drain", "Take devices again", (*control.Service).Undrain)
	Me                = define("GET /api/v1/me", "Tell whose key this is", (*control.Service).Me)
	ChangeMe          = define("PATCH /api/v1/me", "Change your name, language or time zone", (*control.Service).ChangeMe)
	ChangePassword    = define("POST /api/v1/me/password", "Change your password, and sign out all browsers", (*control.Service).ChangePassword)
	SignIns           = define("GET /api/v1/signins", "List the browsers in which you are signed in", (*control.Service).SignIns)
	EndSignIns        = define("DELETE /api/v1/signins", "Sign out all browsers", (*control.Service).EndSignIns)
	EndSignIn         = define("DELETE /api/v1/signins/{signin}", "Sign out a browser", (*control.Service).EndSignIn)
	People            = define("GET /api/v1/people", "List who has an account", (*control.Service).People)
	AddPerson         = define("POST /api/v1/people", "Open an account", (*control.Service).AddPerson)
	Member            = define("GET /api/v1/people/{person}", "Tell about a person", (*control.Service).Member)
	ChangePerson      = define("PATCH /api/v1/people/{person}", "Change the role of a person", (*control.Service).ChangePerson)
	SetPersonPassword = define("POST /api/v1/people/{person}/password", "Give a person another password, and sign them out everywhere", (*control.Service).SetPersonPassword)
	RemovePerson      = define("DELETE /api/v1/people/{person}", "Remove a person with everything that is theirs; the query has their name again", (*control.Service).RemovePerson)
	AdminEvents       = define("GET /api/v1/admin-events", "List the journal of the installation", (*control.Service).AdminEvents)
	VerifyAudit       = define("GET /api/v1/audit/verify", "Check whether the newest calls and the journal, or all, are as they were written", (*control.Service).VerifyAudit).lasting(verifyLimit)
	Secrets           = define("GET /api/v1/secrets", "List the secrets of the installation by their ids", (*control.Service).Secrets)
	RotateSecret      = define("POST /api/v1/secrets", "Give the installation another secret, and seal everything anew", (*control.Service).RotateSecret).lasting(sealLimit)
	ForgetSecrets     = define("DELETE /api/v1/secrets", "Drop the secrets from before", (*control.Service).ForgetSecrets).lasting(sealLimit)
	Restoring         = define("GET /api/v1/restore", "Tell which backup the next start restores", (*control.Service).Restoring)
	CancelRestore     = define("DELETE /api/v1/restore", "Forget the backup that the next start would restore", (*control.Service).CancelRestore)
)

// instanceOperations adds the operations on the installation and its people.
func (s *Server) instanceOperations() {
	s.operate(Status, EffectiveConfig, Drain, Undrain, Me, ChangeMe, ChangePassword, SignIns, EndSignIns,
		EndSignIn, People, AddPerson, Member, ChangePerson, SetPersonPassword, RemovePerson, AdminEvents,
		VerifyAudit, Secrets, RotateSecret, ForgetSecrets, Restoring, CancelRestore)

	s.document("GET /api/v1/backup", "Download a backup of everything, encrypted if the header has a passphrase",
		backupKind, nil, nil, s.backup).Headers = []string{passphraseHeader}
	o := s.document("POST /api/v1/restore", "Check a backup, which is the body, and have the next start restore it",
		"", nil, control.Restoring{}, s.restore)
	o.Takes, o.Headers = backupKind, []string{passphraseHeader}
}

const (
	// verifyLimit is how long clients wait for a verification of the whole audit trail.
	verifyLimit = time.Hour
	// sealLimit is how long they wait until everything is sealed anew.
	sealLimit = 10 * time.Minute
)

const (
	// backupKind is the media type of a backup, and sealedKind of an encrypted one.
	backupKind, sealedKind = "application/gzip", "application/octet-stream"
	// passphraseHeader has the passphrase of a backup; a URL would appear in logs.
	passphraseHeader = "Patchbay-Passphrase"
)

// backup sends a backup. If it fails halfway, the response is aborted.
func (s *Server) backup(w http.ResponseWriter, r *http.Request, c control.Caller) {
	began, kind := false, backupKind
	passphrase := r.Header.Get(passphraseHeader)
	if passphrase != "" {
		kind = sealedKind
	}
	err := s.Backup(r.Context(), c, passphrase, func(name string) io.Writer {
		began = true
		w.Header().Set("Content-Type", kind)
		w.Header().Set("Content-Disposition", `attachment; filename="`+name+`"`)
		return w
	})
	switch {
	case err == nil:
	case began:
		s.Logger.WarnContext(r.Context(), "a backup broke off", "error", err)
		panic(http.ErrAbortHandler) // so that the download does not look complete
	default:
		s.fails(w, r, control.AboutBackup(err))
	}
}

// restore receives a backup.
func (s *Server) restore(w http.ResponseWriter, r *http.Request, c control.Caller) {
	out, err := s.Restore(r.Context(), c, r.Header.Get(passphraseHeader),
		http.MaxBytesReader(w, r.Body, backup.MaxSize))
	if err != nil {
		s.fails(w, r, err)
		return
	}
	reply(w, out)
}
