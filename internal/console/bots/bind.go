package bots

import (
	"context"
	"net/http"
	"time"

	"github.com/a-h/templ"

	"patchbay/internal/account"
	"patchbay/internal/console/page"
	"patchbay/internal/control"
	"patchbay/internal/qr"
)

const (
	// bindEvery is how often it is looked whether somebody was bound: that can happen at
	// another instance, and the page is open for minutes only.
	bindEvery = time.Second
	// renewBefore is how long before its end an invitation is followed by another, so
	// that whoever is about to photograph it can.
	renewBefore = 20 * time.Second
	// renewals bounds for how long a page that somebody forgot makes invitations: about
	// an hour.
	renewals = 12
)

// invitation is what binds glasses, as it is shown.
type invitation struct {
	account.Invitation
	Side int    // of the QR code
	Path string // of its dark parts
}

// invite makes an invitation.
func invite(ctx context.Context, v *page.Visit) (invitation, error) {
	inv, err := v.House.Control.InviteWearer(ctx, v.Caller(), ref(v))
	if err != nil {
		return invitation{}, err
	}
	code, err := qr.Encode(inv.Token)
	if err != nil {
		return invitation{}, err
	}
	return invitation{inv, code.Side(), code.Path()}, nil
}

// bindPage shows the code by which glasses are bound.
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
	v.Show(http.StatusOK, codePage(v, b, inv))
}

// bindLive follows an invitation: it is replaced by another before it ends, and by the
// one who is bound as soon as it was used.
func bindLive(v *page.Visit) {
	b, ok := find(v)
	if !ok {
		return
	}
	id := v.FormValue("invitation")
	if _, err := v.House.Control.Invitation(v.Context(), v.Caller(), control.InvitationRef{Bot: v.PathValue("bot"), Invitation: id}); err != nil {
		v.Fail(err)
		return
	}
	v.Live(func(ctx context.Context, send page.Send) error {
		tick := time.NewTicker(bindEvery)
		defer tick.Stop()
		for renewed := 0; ; {
			i, err := v.House.Control.Invitation(ctx, v.Caller(), control.InvitationRef{Bot: v.PathValue("bot"), Invitation: id})
			switch {
			case err != nil:
				return err
			case i.Used:
				return last(ctx, send, boundPatch(v, b, i.UserID))
			case time.Until(i.Expires) > renewBefore:
			case renewed == renewals:
				return last(ctx, send, restsPatch(v, b))
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

// last sends what stays on the page, and waits for the browser to go: one whose
// connection ends comes back to ask again.
func last(ctx context.Context, send page.Send, part templ.Component) error {
	if err := send(part); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}
