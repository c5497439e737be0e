package api

import (
	"io"
	"net/http"

	"patchbay/internal/backup"
	"patchbay/internal/control"
)

// instanceOperations adds the operations on the installation and its people.
func (s *Server) instanceOperations() {
	operate(s, "GET /api/v1/status",
		"Tell which version runs, on which database, whether it is ready, and which other instances there are",
		s.Status)
	operate(s, "GET /api/v1/settings", "Tell the settings of the instance, without secrets", s.EffectiveConfig)

	operate(s, "POST /api/v1/drain", "Send the devices of this instance to the others, before it is stopped", s.Drain)
	operate(s, "DELETE /api/v1/drain", "Take devices again", s.Undrain)

	operate(s, "GET /api/v1/me", "Tell whose key this is", s.Me)
	operate(s, "PATCH /api/v1/me", "Change your name, language or time zone", s.ChangeMe)
	operate(s, "POST /api/v1/me/password", "Change your password, and sign out all browsers", s.ChangePassword)
	operate(s, "GET /api/v1/signins", "List the browsers in which you are signed in", s.SignIns)
	operate(s, "DELETE /api/v1/signins", "Sign out all browsers", s.EndSignIns)
	operate(s, "DELETE /api/v1/signins/{signin}", "Sign out a browser", s.EndSignIn)

	operate(s, "GET /api/v1/people", "List who has an account", s.People)
	operate(s, "POST /api/v1/people", "Open an account", s.AddPerson)
	operate(s, "GET /api/v1/people/{person}", "Tell about a person", s.Member)
	operate(s, "PATCH /api/v1/people/{person}", "Change the role of a person", s.ChangePerson)
	operate(s, "POST /api/v1/people/{person}/password", "Give a person another password, and sign them out everywhere",
		s.SetPersonPassword)
	operate(s, "DELETE /api/v1/people/{person}",
		"Remove a person with everything that is theirs; the query has their name again", s.RemovePerson)
	operate(s, "GET /api/v1/admin-events", "List the journal of the installation", s.AdminEvents)
	operate(s, "GET /api/v1/audit/verify", "Check whether the newest calls and the journal are as they were written",
		s.VerifyAudit)

	s.document("GET /api/v1/backup", "Download a backup of everything, encrypted if the header has a passphrase",
		backupKind, nil, nil, s.backup).Headers = []string{passphraseHeader}
	operate(s, "GET /api/v1/restore", "Tell which backup the next start restores", s.Restoring)
	o := s.document("POST /api/v1/restore", "Check a backup, which is the body, and have the next start restore it",
		"", nil, control.Restoring{}, s.restore)
	o.Takes, o.Headers = backupKind, []string{passphraseHeader}
	operate(s, "DELETE /api/v1/restore", "Forget the backup that the next start would restore", s.CancelRestore)
}

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
