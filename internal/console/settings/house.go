package settings

import (
	"context"
	"errors"
	"io"
	"mime/multipart"
	"net/http"
	"time"

	"patchbay/internal/account"
	"patchbay/internal/backup"
	"patchbay/internal/console/page"
	"patchbay/internal/control"
	"patchbay/internal/talk"
)

// backupForm is what the page about backups tells.
type backupForm struct {
	Restoring control.Restoring
	// Elsewhere says why there are no backups here.
	Elsewhere string
	Wrong     string
}

func (p pages) backup(v *page.Visit) { p.showBackup(v, http.StatusOK, "") }

func (p pages) showBackup(v *page.Visit, status int, wrong string) {
	f := backupForm{Wrong: wrong}
	var err error
	if f.Restoring, err = p.Restoring(v.Context(), v.Operator(), control.None{}); err != nil {
		e := control.AsError(err)
		if e == nil || e.Reason != control.Conflict {
			v.Fail(err)
			return
		}
		f.Elsewhere = e.In(v.Lang)
	}
	v.Show(status, backupPage(v, f))
}

// backupLive says on the page when the password was typed too long ago for a file to be
// sent, before somebody chooses one.
func (p pages) backupLive(v *page.Visit) {
	v.Live(func(ctx context.Context, send page.Send) error {
		over := time.NewTimer(time.Until(v.Who.Confirmed.Add(account.ConfirmLife)))
		defer over.Stop()
		select {
		case <-ctx.Done():
			return nil
		case <-over.C:
		}
		err := send(uploadLate(v))
		<-ctx.Done() // the page would ask again
		return err
	})
}

// download sends a backup. If it breaks off in the middle, so does the answer.
func (p pages) download(v *page.Visit) {
	began, kind := false, "application/gzip"
	passphrase := v.FormValue("passphrase")
	if passphrase != v.FormValue("again") {
		p.showBackup(v, http.StatusUnprocessableEntity, v.Say(sayOtherPassphrase))
		return
	}
	if passphrase != "" {
		kind = "application/octet-stream"
	}
	err := p.Backup(v.Context(), v.Operator(), passphrase, func(name string) io.Writer {
		began = true
		v.W.Header().Set("Content-Type", kind)
		v.W.Header().Set("Content-Disposition", `attachment; filename="`+name+`"`)
		return v.W
	})
	switch {
	case err == nil:
	case began:
		v.House.Logger.WarnContext(v.Context(), "a backup broke off", "error", err)
		panic(http.ErrAbortHandler) // whoever downloads must not take it for whole
	default:
		if wrong, status := v.Wrong(control.AboutBackup(err)); wrong != "" {
			p.showBackup(v, status, wrong)
		}
	}
}

// restore reads a backup as it comes, since it may be larger than the memory.
func (p pages) restore(v *page.Visit) {
	v.Body = http.MaxBytesReader(v.W, v.Body, backup.MaxSize)
	file, passphrase, err := upload(v.Request)
	if err == nil {
		_, err = p.Restore(v.Context(), v.Operator(), passphrase, file)
	}
	if err != nil {
		if wrong, status := v.Wrong(err); wrong != "" {
			p.showBackup(v, status, wrong)
		}
		return
	}
	v.To("/settings/backup")
}

// upload is the file of a form, which is read while it comes, and the passphrase that the
// form has before it.
func upload(r *http.Request) (file *multipart.Part, passphrase string, err error) {
	parts, err := r.MultipartReader()
	if err != nil {
		return nil, "", control.Fail(control.Invalid, sayNoFile)
	}
	for {
		part, err := parts.NextPart()
		switch {
		case errors.Is(err, io.EOF):
			return nil, "", control.Fail(control.Invalid, sayNoFile)
		case err != nil:
			return nil, "", control.Fail(control.Invalid, sayHalfFile)
		case part.FormName() == "file" && part.FileName() != "":
			return part, passphrase, nil
		case part.FormName() == "passphrase":
			text, err := io.ReadAll(io.LimitReader(part, backup.MaxPassphrase+1))
			if err != nil {
				return nil, "", control.Fail(control.Invalid, sayHalfFile)
			}
			passphrase = string(text)
		}
	}
}

func (p pages) cancelRestore(v *page.Visit) {
	if _, err := p.CancelRestore(v.Context(), v.Operator(), control.None{}); err != nil {
		v.Fail(err)
		return
	}
	v.To("/settings/backup")
}

// installation is how the server is.
func (p pages) installation(v *page.Visit) {
	status, err := p.Status(v.Context(), v.Operator(), control.None{})
	if err != nil {
		v.Fail(err)
		return
	}
	set, err := p.Configured(v.Context(), v.Operator(), control.None{})
	if err != nil {
		v.Fail(err)
		return
	}
	v.Show(http.StatusOK, installationPage(v, status, set.Settings))
}

// troubles say what keeps a server from its work.
var troubles = map[string]talk.Say{"stopping": sayStopping, "draining": sayDraining, "database": sayNoDatabase, "storage": sayNoStorage, "disk_full": sayDiskFull, "disk_errors": sayDiskErrors, "bus": sayNoBus}

// trailShown is how many links of the audit trail the page of the journal checks: some
// hundredths of a second.
const trailShown = 1000

// acts is the journal of the installation.
func (p pages) acts(v *page.Visit) {
	list, err := p.Acts(v.Context(), v.Operator(), control.ActsWanted{Before: v.FormValue("before")})
	if err != nil {
		v.Fail(err)
		return
	}
	trail, err := p.VerifyAudit(v.Context(), v.Operator(), control.AuditWanted{Newest: trailShown})
	if err != nil {
		v.Fail(err)
		return
	}
	v.Show(http.StatusOK, actsPage(v, list, trail))
}

// actWords say what was done.
var actWords = map[string]talk.Say{
	control.ActPersonAdded: sayActAdded, control.ActPersonRole: sayActRole, control.ActPersonPassword: sayActPassword, control.ActPersonRemoved: sayActRemoved,
	control.ActBackupTaken: sayActBackup, control.ActBackupStaged: sayActStaged, control.ActBackupCancelled: sayActCancelled,
	control.ActDrained: sayActDrained, control.ActUndrained: sayActUndrained,
	control.ActSecretRotated: sayActSecret, control.ActSecretForgotten: sayActForgotten, control.ActSecretLost: sayActLost,
	control.ActKeyMade: sayActKeyMade, control.ActKeyRules: sayActKeyRules, control.ActKeyRevoked: sayActKeyRevoked, control.ActRecordsDeleted: sayActDeleted,
	control.ActSignedIn: sayActSignedIn, control.ActProfile: sayActProfile, control.ActSignInsEnded: sayActSignedOut,
	control.ActSignInRefused: sayActRefused,
	control.ActBotAdded:      sayActBotAdded, control.ActBotChanged: sayActBotChanged, control.ActBotRemoved: sayActBotRemoved, control.ActBotToken: sayActBotToken,
	control.ActBotInvited: sayActBotInvited, control.ActBotUnbound: sayActBotUnbound, control.ActBotDisconnected: sayActBotCut,
	control.ActUpstreamAdded: sayActUpAdded, control.ActUpstreamChanged: sayActUpChanged, control.ActUpstreamToken: sayActUpToken, control.ActUpstreamRemoved: sayActUpRemoved,
	control.ActToolRule: sayActToolRule, control.ActDeviceApproved: sayActDevApproved, control.ActDeviceChanged: sayActDevChanged, control.ActDeviceRemoved: sayActDevRemoved,
	control.ActNodeRenamed: sayActNodeRenamed, control.ActNodeRemoved: sayActNodeRemoved, control.ActPairApproved: sayActPairApproved, control.ActPairRejected: sayActPairRejected,
}

// did says what an act was; one that nobody has words for is told by its name.
func did(v *page.Visit, act string) string {
	if s, ok := actWords[act]; ok {
		return v.Say(s)
	}
	return act
}
