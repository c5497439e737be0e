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
	"patchbay/internal/i18n"
	"patchbay/internal/netx"
	"patchbay/internal/problem"
)

// backupForm is the data of the page about backups.
type backupForm struct {
	Restoring control.Restoring
	// Elsewhere says why backups cannot be made here.
	Elsewhere string
	Wrong     string
}

func (p pages) backup(v *page.Visit) { p.showBackup(v, http.StatusOK, "") }

func (p pages) showBackup(v *page.Visit, status int, wrong string) {
	f := backupForm{Wrong: wrong}
	var err error
	if f.Restoring, err = p.Restoring(v.Context(), v.Operator(), control.Empty{}); err != nil {
		e := control.AsError(err)
		if e == nil || e.Code != problem.Conflict {
			v.Fail(err)
			return
		}
		f.Elsewhere = e.In(v.Lang)
	}
	v.Render(status, backupPage(v, f))
}

// backupLive tells an open page when the password entry has expired, before somebody chooses a
// file: an upload cannot wait for the password.
func (p pages) backupLive(v *page.Visit) {
	v.Live(func(ctx context.Context, send page.Send) error {
		if netx.Wait(ctx, time.Until(v.Session.Confirmed.Add(account.ConfirmLife))) != nil {
			return nil
		}
		err := send(uploadLate(v))
		<-ctx.Done() // keep the stream open: the page would reconnect
		return err
	})
}

// download sends a backup. An error in the middle aborts the connection.
func (p pages) download(v *page.Visit) {
	began, kind := false, "application/gzip"
	passphrase := v.FormValue("passphrase")
	if passphrase != v.FormValue("again") {
		p.showBackup(v, http.StatusUnprocessableEntity, v.Text(msgOtherPassphrase))
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
		v.Instance.Logger.WarnContext(v.Context(), "a backup broke off", "error", err)
		panic(http.ErrAbortHandler) // the browser must not take the file for complete
	default:
		if wrong, status := v.Wrong(control.AboutBackup(err)); wrong != "" {
			p.showBackup(v, status, wrong)
		}
	}
}

// restore reads a backup as a stream, since it may be larger than the memory.
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
	v.Redirect("/settings/backup")
}

// upload returns the file of a form, which is read while it arrives, and the passphrase, which
// comes before it in the form.
func upload(r *http.Request) (file *multipart.Part, passphrase string, err error) {
	parts, err := r.MultipartReader()
	if err != nil {
		return nil, "", problem.New(problem.Invalid, msgNoFile)
	}
	for {
		part, err := parts.NextPart()
		switch {
		case errors.Is(err, io.EOF):
			return nil, "", problem.New(problem.Invalid, msgNoFile)
		case err != nil:
			return nil, "", problem.New(problem.Invalid, msgHalfFile)
		case part.FormName() == "file" && part.FileName() != "":
			return part, passphrase, nil
		case part.FormName() == "passphrase":
			text, err := io.ReadAll(io.LimitReader(part, backup.MaxPassphrase+1))
			if err != nil {
				return nil, "", problem.New(problem.Invalid, msgHalfFile)
			}
			passphrase = string(text)
		}
	}
}

func (p pages) cancelRestore(v *page.Visit) {
	if _, err := p.CancelRestore(v.Context(), v.Operator(), control.Empty{}); err != nil {
		v.Fail(err)
		return
	}
	v.Redirect("/settings/backup")
}

// installation shows the state of the server.
func (p pages) installation(v *page.Visit) {
	status, err := p.Status(v.Context(), v.Operator(), control.Empty{})
	if err != nil {
		v.Fail(err)
		return
	}
	set, err := p.EffectiveConfig(v.Context(), v.Operator(), control.Empty{})
	if err != nil {
		v.Fail(err)
		return
	}
	v.Render(http.StatusOK, installationPage(v, status, set.Settings))
}

// statusText maps the reasons why a server is not ready to texts.
var statusText = map[string]i18n.Message{"stopping": msgStopping, "draining": msgDraining, "database": msgNoDatabase,
	"storage": msgNoStorage, "disk_full": msgDiskFull, "disk_errors": msgDiskErrors, "bus": msgNoBus}

// maxEventsShown is how many entries of the audit trail's hash chain the page verifies; it takes
// some thousandths of a second. The command `patchbay audit verify` verifies them all.
const maxEventsShown = 200

// adminEvents shows the administrator actions.
func (p pages) adminEvents(v *page.Visit) {
	list, err := p.AdminEvents(v.Context(), v.Operator(), control.AdminEventsQuery{Before: v.FormValue("before")})
	if err != nil {
		v.Fail(err)
		return
	}
	trail, err := p.VerifyAudit(v.Context(), v.Operator(), control.AuditQuery{Newest: maxEventsShown})
	if err != nil {
		v.Fail(err)
		return
	}
	v.Render(http.StatusOK, adminEventsPage(v, list, trail))
}

// adminEventText maps the names of admin events to texts.
var adminEventText = map[string]i18n.Message{
	control.EventPersonAdded:        msgActAdded,
	control.EventPersonRole:         msgActRole,
	control.EventPersonPassword:     msgActPassword,
	control.EventPersonLimits:       msgActLimits,
	control.EventPersonPaused:       msgActPaused,
	control.EventPersonResumed:      msgActResumed,
	control.EventPersonInvited:      msgActInvited,
	control.EventPersonUninvited:    msgActUninvited,
	control.EventPersonWelcomed:     msgActWelcomed,
	control.EventPersonRemoved:      msgActRemoved,
	control.EventBackupTaken:        msgActBackup,
	control.EventBackupStaged:       msgActStaged,
	control.EventBackupCancelled:    msgActCancelled,
	control.EventDrained:            msgActDrained,
	control.EventUndrained:          msgActUndrained,
	control.EventSecretRotated:      msgActSecret,
	control.EventCertificateIssued:  msgActCertIssued,
	control.EventCertificateRenewed: msgActCertRenewed,
	control.EventCertificateFailed:  msgActCertFailed,
	control.EventSecretForgotten:    msgActForgotten,
	control.EventSecretLost:         msgActLost,
	control.EventKeyMade:            msgActKeyMade,
	control.EventKeyRules:           msgActKeyRules,
	control.EventKeyRevoked:         msgActKeyRevoked,
	control.EventCallApproved:       msgActCallApproved,
	control.EventCallDenied:         msgActCallDenied,
	control.EventOAuthAllowed:       msgActOAuthAllowed,
	control.EventOAuthReused:        msgActOAuthReused,
	control.EventOAuthGivenUp:       msgActOAuthGivenUp,
	control.EventClientAdded:        msgActClientAdded,
	control.EventClientRemoved:      msgActClientRemoved,
	control.EventRecordsDeleted:     msgActDeleted,
	control.EventSignedIn:           msgActSignedIn,
	control.EventProfile:            msgActProfile,
	control.EventSignInsEnded:       msgActSignedOut,
	control.EventSignInRefused:      msgActRefused,
	control.EventProviderRefused:    msgActProviderRefused,
	control.EventLinked:             msgActLinked,
	control.EventUnlinked:           msgActUnlinked,
	control.EventAppAdded:           msgActAppAdded,
	control.EventAppRemoved:         msgActAppRemoved,
	control.EventPasskeyAdded:       msgActPasskeyAdded,
	control.EventPasskeyRemoved:     msgActPasskeyRemoved,
	control.EventSecondStepsRemoved: msgActStepsRemoved,
	control.EventRecoveryCodes:      msgActRecoveryCodes,
	control.EventBotAdded:           msgActBotAdded,
	control.EventBotChanged:         msgActBotChanged,
	control.EventBotRemoved:         msgActBotRemoved,
	control.EventBotToken:           msgActBotToken,
	control.EventBotInvited:         msgActBotInvited,
	control.EventBotUnbound:         msgActBotUnbound,
	control.EventBotShared:          msgActBotShared,
	control.EventBotUnshared:        msgActBotUnshared,
	control.EventUpstreamAdded:      msgActUpAdded,
	control.EventUpstreamChanged:    msgActUpChanged,
	control.EventPinsChanged:        msgActPinsChanged,
	control.EventPinsApproved:       msgActPinsApproved,
	control.EventUpstreamToken:      msgActUpToken,
	control.EventUpstreamSigningIn:  msgActUpSigningIn,
	control.EventUpstreamSignedIn:   msgActUpSignedIn,
	control.EventUpstreamSignedOut:  msgActUpSignedOut,
	control.EventUpstreamShared:     msgActUpShared,
	control.EventUpstreamUnshared:   msgActUpUnshared,
	control.EventUpstreamRemoved:    msgActUpRemoved,
	control.EventEngineAdded:        msgActEngineAdded,
	control.EventEngineChanged:      msgActEngineChanged,
	control.EventEngineRemoved:      msgActEngineRemoved,
	control.EventToolSet:            msgActToolSet,
	control.EventToolRule:           msgActToolRule,
	control.EventToolWords:          msgActToolWords,
	control.EventDeviceApproved:     msgActDevApproved,
	control.EventDeviceChanged:      msgActDevChanged,
	control.EventDeviceVoice:        msgActDevVoice,
	control.EventDeviceRecording:    msgActDevRecording,
	control.EventRecordingsRead:     msgActRecordingsRead,
	control.EventRecordingsGone:     msgActRecordingsGone,
	control.EventDeviceRemoved:      msgActDevRemoved,
	control.EventNodeRenamed:        msgActNodeRenamed,
	control.EventNodeRemoved:        msgActNodeRemoved,
	control.EventNodePolicy:         msgActNodePolicy,
	control.EventPairApproved:       msgActPairApproved,
	control.EventPairRejected:       msgActPairRejected,
	control.EventPairInvited:        msgActPairInvited,
	control.EventPairCancelled:      msgActPairCancelled,
	control.EventPairRevoked:        msgActPairRevoked,
}

// adminEventName returns the text of an admin event, or its name if it has none.
func adminEventName(v *page.Visit, event string) string {
	if s, ok := adminEventText[event]; ok {
		return v.Text(s)
	}
	return event
}
