package account

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// Pending is a form that was sent when the password had been typed too long ago. It
// waits for that in the browser, sealed, since there may be secrets in it, and another
// instance may be the one that the password comes to.
type Pending struct {
	Path string `json:"path"` // where it was sent to, with the query
	Form string `json:"form"` // its fields, as they came
}

// pendingLife is how long a form waits for the password.
const pendingLife = ConfirmLife

// ErrPending is a form that must not be carried out: too much time has passed, the
// password was typed since, somebody else sent it, or it was tampered with.
var ErrPending = errors.New("the form that waited for the password is good no more")

// pending is what is sealed.
type pending struct {
	Pending
	SignIn string `json:"signin"`
	Until  int64  `json:"until"` // Unix milliseconds
}

// Hold seals a form until the password is typed.
func (s *Service) Hold(x SignedIn, p Pending) (string, error) {
	plain, err := json.Marshal(pending{p, x.ID, s.now().Add(pendingLife).UnixMilli()})
	if err != nil {
		return "", fmt.Errorf("seal a form: %w", err)
	}
	return s.box.Seal(string(plain)), nil
}

// Held opens a form that [Service.Hold] sealed for the same sign-in. [Service.Confirm]
// makes that another one, so that no form is carried out twice. The error is
// [ErrPending].
func (s *Service) Held(x SignedIn, sealed string) (Pending, error) {
	plain, err := s.box.Open(sealed)
	if err != nil || plain == sealed { // what is not sealed is given back as it is
		return Pending{}, ErrPending
	}
	var p pending
	if err := json.Unmarshal([]byte(plain), &p); err != nil || p.SignIn != x.ID || x.ID == "" || !s.now().Before(time.UnixMilli(p.Until)) {
		return Pending{}, ErrPending
	}
	return p.Pending, nil
}
