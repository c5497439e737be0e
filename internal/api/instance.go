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
	Status            = define("GET /api/v1/status", "Return version, database, readiness and the other instances", (*control.Service).Status)
	Discover          = define("GET /api/v1/discoveries", "Find model servers, OpenClaw gateways and Wyoming servers on the server's machine and in its network", (*control.Service).Discover)
	EffectiveConfig   = define("GET /api/v1/settings", "Return the settings of this instance, without secrets", (*control.Service).EffectiveConfig)
	Drain             = define("POST /api/v1/drain", "Drain this instance: move its devices to other instances", (*control.Service).Drain)
	Undrain           = define("DELETE /api/v1/drain", "End draining: accept devices again", (*control.Service).Undrain)
	Me                = define("GET /api/v1/me", "Return the account of the key", (*control.Service).Me)
	ChangeMe          = define("PATCH /api/v1/me", "Update the caller's name, language or time zone", (*control.Service).ChangeMe)
	ChangePassword    = define("POST /api/v1/me/password", "Change the caller's password and sign out all browsers", (*control.Service).ChangePassword)
	SignIns           = define("GET /api/v1/signins", "List the caller's browser sessions", (*control.Service).SignIns)
	EndSignIns        = define("DELETE /api/v1/signins", "End all browser sessions of the caller", (*control.Service).EndSignIns)
	EndSignIn         = define("DELETE /api/v1/signins/{signin}", "End a browser session of the caller", (*control.Service).EndSignIn)
	Links             = define("GET /api/v1/links", "List links of accounts to people of the OpenID provider", (*control.Service).Links)
	RemoveLink        = define("DELETE /api/v1/links/{link}", "Remove a link of an account to somebody of the OpenID provider", (*control.Service).RemoveLink)
	People            = define("GET /api/v1/people", "List accounts", (*control.Service).People)
	AddPerson         = define("POST /api/v1/people", "Create an account", (*control.Service).AddPerson)
	Member            = define("GET /api/v1/people/{person}", "Return an account", (*control.Service).Member)
	ChangePerson      = define("PATCH /api/v1/people/{person}", "Update the role, limits, bots or pause of an account", (*control.Service).ChangePerson)
	SetPersonPassword = define("POST /api/v1/people/{person}/password", "Set the password of an account and end its browser sessions", (*control.Service).SetPersonPassword)
	InvitePerson      = define("POST /api/v1/people/{person}/invitation", "Create the link with which the person of an account sets a password", (*control.Service).InvitePerson)
	Uninvite          = define("DELETE /api/v1/people/{person}/invitation", "Withdraw the link with which the person of an account sets a password", (*control.Service).WithdrawInvitation)
	RemoveSecondSteps = define("DELETE /api/v1/people/{person}/second-steps", "Remove authenticator app, passkeys and recovery codes of an account", (*control.Service).RemoveSecondSteps)
	RemovePerson      = define("DELETE /api/v1/people/{person}", "Delete an account with all its data; the query repeats its name as confirmation", (*control.Service).RemovePerson)
	AdminEvents       = define("GET /api/v1/admin-events", "List admin events", (*control.Service).AdminEvents)
	VerifyAudit       = define("GET /api/v1/audit/verify", "Verify the hash chain of the audit trail: its newest entries, or all", (*control.Service).VerifyAudit).lasting(verifyLimit)
	Secrets           = define("GET /api/v1/secrets", "List the ids of the installation's secrets", (*control.Service).Secrets)
	RotateSecret      = define("POST /api/v1/secrets", "Rotate the installation's secret and re-encrypt stored credentials", (*control.Service).RotateSecret).lasting(sealLimit)
	ForgetSecrets     = define("DELETE /api/v1/secrets", "Drop all previous secrets of the installation", (*control.Service).ForgetSecrets).lasting(sealLimit)
	Restoring         = define("GET /api/v1/restore", "Return the backup that the next start restores", (*control.Service).Restoring)
	CancelRestore     = define("DELETE /api/v1/restore", "Cancel the restore at the next start", (*control.Service).CancelRestore)
)

// instanceOperations adds the operations on the installation and its people.
func (s *Server) instanceOperations() {
	s.operate(Status, Discover, EffectiveConfig, Drain, Undrain, Me, ChangeMe, ChangePassword, SignIns, EndSignIns,
		EndSignIn, Links, RemoveLink, People, AddPerson, Member, ChangePerson, SetPersonPassword, InvitePerson,
		Uninvite, RemoveSecondSteps, RemovePerson, AdminEvents, VerifyAudit, Secrets, RotateSecret, ForgetSecrets,
		Restoring, CancelRestore)

	s.document("GET /api/v1/backup", "Download a full backup, encrypted if the header contains a passphrase",
		backupKind, nil, nil, s.backup).Headers = []string{passphraseHeader}
	o := s.document("POST /api/v1/restore", "Upload and check a backup, and restore it at the next start",
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
