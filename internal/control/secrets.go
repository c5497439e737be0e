package control

import (
	"context"
	"time"

	"patchbay/internal/i18n"
	"patchbay/internal/problem"
)

// SecretState describes one secret of the installation.
type SecretState struct {
	ID   string    `json:"id"` // gives nothing away
	Made time.Time `json:"made_at"`
	Used time.Time `json:"used_at,omitzero"` // when it became the current one; zero: pending
	// Until is when it expires; zero: it is the current one, or pending.
	Until time.Time `json:"until,omitzero"`
	// Own is set for the secret that this instance starts with.
	Own bool `json:"own"`
}

// SecretActions are the operations on the secrets of the installation. Errors that a caller is told
// are of type *[Error].
type SecretActions struct {
	// State lists the secrets, the current one first.
	State func() []SecretState
	// Current returns the current secret with its id.
	Current func() (id, secret string)
	// Rotate gives the installation another secret, the given one or, if it is empty, a new one. It
	// returns how many values it sealed anew.
	Rotate func(ctx context.Context, secret string) (sealed int, err error)
	// Forget drops all secrets but the current one.
	Forget func(context.Context) error
}

const (
	msgSecretNowHand = i18n.Message("secret is in the settings, where the new one has to be before the old one can go: run this without --now, change the settings, restart, and run patchbay secret forget")
	msgSecretMachine = i18n.Message("The secret is told on the server's machine only.")
	msgSecretGive    = i18n.Message("secret is in the settings, and a new one is told on the server's machine only; give one (--from FILE)")
)

// SecretQuery says what to tell about secrets.
type SecretQuery struct {
	Reveal bool `query:"reveal"` // the current secret itself, which only this machine's operator gets
}

// SecretList are the secrets of the installation, the current one first.
type SecretList struct {
	Secrets []SecretState `json:"secrets"`
	Secret  string        `json:"secret,omitempty"` // the current one, if requested
}

// Secrets lists the secrets of the installation.
func (s *Service) Secrets(_ context.Context, c Caller, in SecretQuery) (SecretList, error) {
	if err := admin(c); err != nil {
		return SecretList{}, err
	}
	out := SecretList{Secrets: s.SecretActions.State()}
	if in.Reveal {
		if c.Person != "" {
			return SecretList{}, problem.New(problem.Denied, msgSecretMachine)
		}
		_, out.Secret = s.SecretActions.Current()
	}
	return out, nil
}

// SecretRotation says how to replace the secret.
type SecretRotation struct {
	Secret string `json:"secret,omitempty"` // the new one; empty: one is made
	Now    bool   `json:"now,omitempty"`    // drop the old one at once
}

// RotatedSecret is the result of a rotation.
type RotatedSecret struct {
	Secrets []SecretState `json:"secrets"`
	Sealed  int           `json:"sealed_anew"` // number of values that this instance encrypted again
	// Configured is set if the new secret has to be put into the settings.
	Configured bool `json:"configured,omitempty"`
	// Secret is the new one if it has to be put into the settings and was made here.
	Secret string `json:"secret,omitempty"`
}

// RotateSecret gives the installation another secret and seals everything anew. Only the operator
// of this machine gets a secret that was generated.
func (s *Service) RotateSecret(ctx context.Context, c Caller, in SecretRotation) (RotatedSecret, error) {
	if err := requireUnrestrictedAdmin(c); err != nil {
		return RotatedSecret{}, err
	}
	out := RotatedSecret{Configured: s.Instance.Secret != ""}
	switch {
	case out.Configured && in.Now:
		return RotatedSecret{}, problem.New(problem.Conflict, msgSecretNowHand)
	case out.Configured && in.Secret == "" && c.Person != "":
		return RotatedSecret{}, problem.New(problem.Denied, msgSecretGive)
	}
	var err error
	if out.Sealed, err = s.SecretActions.Rotate(ctx, in.Secret); err != nil {
		return RotatedSecret{}, err
	}
	id, secret := s.SecretActions.Current()
	s.RecordAdminEvent(ctx, c, EventSecretRotated, id)
	if in.Now {
		if err := s.forgetSecrets(ctx, c); err != nil {
			return RotatedSecret{}, err
		}
	}
	out.Secrets = s.SecretActions.State()
	if out.Configured && in.Secret == "" {
		out.Secret = secret
	}
	return out, nil
}

// ForgottenSecrets is the result of dropping old secrets.
type ForgottenSecrets struct {
	Dropped int `json:"dropped"`
}

// ForgetSecrets drops all secrets but the current one. Credentials that boards, nodes and programs
// got under an old secret become invalid.
func (s *Service) ForgetSecrets(ctx context.Context, c Caller, _ Empty) (ForgottenSecrets, error) {
	if err := requireUnrestrictedAdmin(c); err != nil {
		return ForgottenSecrets{}, err
	}
	old := len(s.SecretActions.State()) - 1
	if old <= 0 {
		return ForgottenSecrets{}, nil
	}
	return ForgottenSecrets{old}, s.forgetSecrets(ctx, c)
}

func (s *Service) forgetSecrets(ctx context.Context, c Caller) error {
	if err := s.SecretActions.Forget(ctx); err != nil {
		return err
	}
	id, _ := s.SecretActions.Current()
	s.RecordAdminEvent(ctx, c, EventSecretForgotten, id)
	return nil
}
