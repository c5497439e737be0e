package account

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// Pending is a form that was sent when the last password confirmation was too long ago. It waits in
// the browser until the password is typed. It is sealed, because it may hold secrets, and because
// another instance may receive the password.
type Pending struct {
	Path string `json:"path"` // the path it was sent to, with the query
	Form string `json:"form"` // its fields as received
}

// pendingTTL is how long a form waits for the password.
const pendingTTL = ConfirmLife

// ErrPending means that a form must not be submitted: it has expired, the password was typed since,
// another person sent it, or it was tampered with.
var ErrPending = errors.New("the form that waited for the password is good no more")

// pending is the sealed content.
type pending struct {
	Pending
	SignIn string `json:"signin"`
	Until  int64  `json:"until"` // Unix milliseconds
}

// Hold seals a form until the password is typed.
func (s *Service) Hold(x SignedIn, p Pending) (string, error) {
	plain, err := json.Marshal(pending{p, x.ID, s.now().Add(pendingTTL).UnixMilli()})
	if err != nil {
		return "", fmt.Errorf("seal a form: %w", err)
	}
	return s.box.Seal(string(plain)), nil
}

// Held opens a form that [Service.Hold] sealed for the same sign-in. [Service.Confirm] replaces the
// sign-in, so that no form is submitted twice. The error is [ErrPending].
func (s *Service) Held(x SignedIn, sealed string) (Pending, error) {
	plain, err := s.box.Open(sealed)
	if err != nil || plain == sealed { // Open returns unsealed text unchanged
		return Pending{}, ErrPending
	}
	var p pending
	if err := json.Unmarshal([]byte(plain), &p); err != nil || p.SignIn != x.ID || x.ID == "" ||
		!s.now().Before(time.UnixMilli(p.Until)) {
		return Pending{}, ErrPending
	}
	return p.Pending, nil
}
