package bots

import (
	"context"
	"net/http"
	"time"

	"github.com/a-h/templ"

	"patchbay/internal/console/page"
	"patchbay/internal/control"
	"patchbay/internal/qr"
)

const (
	// bindPollInterval is how often the page checks whether somebody was bound: that can happen on
	// another instance, and the page is open for only minutes.
	bindPollInterval = time.Second
	// renewBefore is how long before its expiry an invitation is replaced, so that a code that is
	// about to be scanned stays valid.
	renewBefore = 20 * time.Second
	// maxRenewals limits how long a forgotten page renews invitations: about an hour.
	maxRenewals = 12
)

// invitation is a binding code for glasses, with its QR code.
type invitation struct {
	control.Invitation
	Side int    // width and height of the QR code, in modules
	Path string // SVG path of its dark modules
}

// invite creates an invitation.
func invite(ctx context.Context, v *page.Visit) (invitation, error) {
	inv, err := v.Instance.Control.InviteWearer(ctx, v.Caller(), ref(v))
	if err != nil {
		return invitation{}, err
	}
	code, err := qr.Encode(inv.Token)
	if err != nil {
		return invitation{}, err
	}
	return invitation{inv, code.Side(), code.Path()}, nil
}

// bindPage shows the code that binds glasses.
func bindPage(v *page.Visit) {
	b, ok := find(v)
	if !ok {
		return
	}
	inv, err := invite(v.Context(), v)
	if err != nil {
		v.Fail(err)
		return
	}
	v.Render(http.StatusOK, codePage(v, b, inv))
}

// bindLive updates the page of an invitation: with a new invitation before the old one expires, and
// with the bound user as soon as the invitation was used.
func bindLive(v *page.Visit) {
	b, ok := find(v)
	if !ok {
		return
	}
	id := v.FormValue("invitation")
	if _, err := v.Instance.Control.Invitation(v.Context(), v.Caller(),
		control.InvitationRef{Bot: v.PathValue("bot"), Invitation: id}); err != nil {
		v.Fail(err)
		return
	}
	v.Live(func(ctx context.Context, send page.Send) error {
		tick := time.NewTicker(bindPollInterval)
		defer tick.Stop()
		for renewed := 0; ; {
			i, err := v.Instance.Control.Invitation(ctx, v.Caller(),
				control.InvitationRef{Bot: v.PathValue("bot"), Invitation: id})
			switch {
			case err != nil:
				return err
			case i.Used:
				return sendFinal(ctx, send, bindDonePatch(v, b, i.UserID))
			case time.Until(i.Expires) > renewBefore:
			case renewed == maxRenewals:
				return sendFinal(ctx, send, pausedPatch(v, b))
			default:
				renewed++
				inv, err := invite(ctx, v)
				if err != nil {
					return err
				}
				id = inv.ID
				if err := send(codePatch(v, b, inv)); err != nil {
					return err
				}
			}
			select {
			case <-ctx.Done():
				return nil
			case <-tick.C:
			}
		}
	})
}

// sendFinal sends the final content and keeps the stream open until the browser disconnects: a
// browser whose stream ends reconnects.
func sendFinal(ctx context.Context, send page.Send, part templ.Component) error {
	if err := send(part); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}
