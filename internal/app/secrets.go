package app

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"patchbay/internal/config"
	"patchbay/internal/control"
	"patchbay/internal/i18n"
	"patchbay/internal/netx"
	"patchbay/internal/problem"
	"patchbay/internal/seal"
	"patchbay/internal/store"
)

const (
	// secretsEvery is the interval of polling for changes of the installation's secret.
	secretsEvery = time.Second
	// secretsSettle is how long a change may take to reach all instances.
	secretsSettle = 4 * secretsEvery
	// SecretLife is how long a replaced secret stays valid, for the credentials that boards and
	// nodes got before.
	SecretLife = 30 * 24 * time.Hour
	// secretWaits is how long an interrupted rotation can be resumed.
	secretWaits = 24 * time.Hour
)

const (
	msgStrangeSecret = i18n.Message("secret (or secret.key in the data folder) is not the one of this installation: the data was sealed with another. Bring the right one back, from a backup or from another instance. If it is lost for good: patchbay secret rotate --lost")
	msgNoSecret      = i18n.Message("there is no secret.key in the data folder, and the data was sealed with it. Bring it back, from a backup or from another instance. If it is lost for good: patchbay secret rotate --lost")
	msgOldSecret     = i18n.Message("the secret in the settings is the old one still, and no instance could start with it. Configure the new one on every instance (patchbay secret show --reveal), restart them, and try again")
	msgAnotherWaits  = i18n.Message("another change of the secret was begun and has not ended; finish it first, by the same command without --from")
	msgSecretThere   = i18n.Message("the secret is not lost: the one that is here opens the data. To change it, run the same command without --lost")
	msgSecretHere    = i18n.Message("this secret is in use already")
)

// Errors of [OpenBase].
var (
	errStrangeSecret = msgStrangeSecret.Errorf()
	errNoSecret      = msgNoSecret.Errorf()
)

// IsSecretWrong reports whether an error of [OpenBase] means that the secret is missing, or is not
// that of the installation.
func IsSecretWrong(err error) bool {
	return errors.Is(err, errStrangeSecret) || errors.Is(err, errNoSecret)
}

// Secrets manages the secrets of the installation, as stored in the database. It is safe for
// concurrent use.
type Secrets struct {
	Box *seal.Box

	config *config.Config
	db     *store.DB
	own    *seal.Key // configured, or read from the data folder at the start
	log    *slog.Logger
	settle func(context.Context) error // waits until other instances have read a change

	reading sync.Mutex // held while they are read, so that an older state does not replace a newer one

	mu   sync.Mutex
	last []store.Secret // as last read
}

// ownSecret returns the configured key, or that of the data folder, or nil if there is none.
func ownSecret(c *config.Config) (*seal.Key, error) {
	secret := c.Secret
	if secret == "" {
		var err error
		if secret, err = seal.ReadFile(c.Data); errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		} else if err != nil {
			return nil, err
		}
	}
	return seal.NewKey(secret)
}

// openSecrets opens the secrets of the installation with the given one. At the first start the
// given one becomes the installation's; nil means that one is generated.
func openSecrets(ctx context.Context, c *config.Config, db *store.DB, own *seal.Key,
	log *slog.Logger) (*Secrets, error) {
	there, err := db.Secrets.All(ctx)
	if err != nil {
		return nil, err
	}
	if own == nil && len(there) > 0 {
		return nil, errNoSecret
	}
	s, err := newSecrets(c, db, own, log)
	if err != nil {
		return nil, err
	}
	if len(there) == 0 {
		if err := s.adopt(ctx); err != nil {
			return nil, err
		}
	}
	return s, s.refresh(ctx)
}

// newSecrets returns a Secrets with its own key. If own is nil it generates one in the data folder.
func newSecrets(c *config.Config, db *store.DB, own *seal.Key, log *slog.Logger) (*Secrets, error) {
	if own == nil {
		box, err := seal.Open(c.Data)
		if err != nil {
			return nil, err
		}
		own = box.Key()
	}
	s := &Secrets{Box: seal.NewBox(own), config: c, db: db, own: own, log: log,
		settle: func(ctx context.Context) error { return netx.Wait(ctx, secretsSettle) }}
	return s, nil
}

// adopt makes the own secret that of the installation, unless the existing values were sealed with
// another one, before the table of secrets existed.
func (s *Secrets) adopt(ctx context.Context) error {
	opened, strange := 0, 0
	_, err := s.db.Secrets.EachSealed(ctx, func(text string) (string, bool) {
		o, n := s.Box.CountSealed(text)
		opened, strange = opened+o, strange+n
		return text, false
	})
	if err != nil {
		return err
	}
	if opened == 0 && strange > 0 {
		return errStrangeSecret
	}
	return s.take(ctx)
}

// take stores the own secret as that of the installation.
func (s *Secrets) take(ctx context.Context) error {
	now := time.Now()
	return s.db.Secrets.Adopt(ctx, s.own.MAC("installation")[:16],
		store.Secret{ID: s.own.ID, SealedBy: s.own.ID, Sealed: s.own.Wrap(s.own), Made: now, Used: now})
}

// refresh reads the secrets from the database.
func (s *Secrets) refresh(ctx context.Context) error {
	s.reading.Lock()
	defer s.reading.Unlock()
	list, err := s.db.Secrets.All(ctx)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if slices.Equal(list, s.last) {
		return nil
	}
	have := map[string]*seal.Key{s.own.ID: s.own}
	for _, k := range s.Box.Keys() {
		have[k.ID] = k
	}
	for more := true; more; {
		more = false
		for _, x := range list {
			by := have[x.SealedBy]
			if by == nil || have[x.ID] != nil {
				continue
			}
			if have[x.ID], err = by.Unwrap(x.Sealed); err != nil {
				return err
			}
			more = true
		}
	}
	var keys []*seal.Key
	for _, x := range list {
		k := have[x.ID]
		if k == nil {
			return errStrangeSecret
		}
		if !slices.Contains(keys, k) {
			keys = append(keys, k)
		}
	}
	if len(keys) == 0 {
		return errStrangeSecret // the table was emptied while the server runs
	}
	s.Box.SetKeys(keys...)
	s.last = list
	return nil
}

// Run applies changes of the secret until ctx ends, and drops expired secrets.
func (s *Secrets) Run(ctx context.Context) error {
	tick := time.NewTicker(secretsEvery)
	defer tick.Stop()
	followed, failing := "", false // at the start something may be unfinished
	for {
		err := s.refresh(ctx)
		if current := s.Box.Key().ID; err == nil && current != followed {
			if err = s.follow(ctx); err == nil {
				followed = current
			}
		}
		if err == nil {
			err = s.expire(ctx)
		}
		if ctx.Err() != nil {
			return nil
		}
		if err != nil && !failing {
			s.log.Error("a change of the installation's secret could not be looked for, or not be followed",
				"error", err)
		}
		failing = err != nil
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// follow writes the secret file and reseals values after the current secret has changed.
func (s *Secrets) follow(ctx context.Context) error {
	if err := s.writeFile(); err != nil {
		return err
	}
	_, err := s.reseal(ctx)
	return err
}

// expire drops expired secrets. It keeps them if this instance is configured with an old one and
// could not start without it; see [Secrets.Forget].
func (s *Secrets) expire(ctx context.Context) error {
	list, now := s.State(), time.Now()
	if len(list) < 2 || !list[0].Own {
		return nil
	}
	for _, x := range list[1:] {
		if now.Before(x.Until) || x.Used.IsZero() && now.Sub(x.Made) < secretWaits {
			return nil
		}
	}
	s.log.Info("old secrets of the installation hold no more", "secrets", len(list)-1)
	return s.Forget(ctx)
}

// State returns the secrets of the installation as last read, the current one first.
func (s *Secrets) State() []control.SecretState {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []control.SecretState
	for _, x := range s.last {
		if slices.ContainsFunc(out, func(o control.SecretState) bool { return o.ID == x.ID }) {
			continue
		}
		state := control.SecretState{ID: x.ID, Made: x.Made, Used: x.Used, Own: x.ID == s.own.ID}
		if len(out) > 0 && !x.Used.IsZero() {
			state.Until = out[0].Used.Add(SecretLife)
		}
		out = append(out, state)
	}
	return out
}

// Rotate gives the installation another secret: it waits until all instances have read it, makes it
// the current one, and reseals everything with it. An interrupted rotation is resumed by the next
// Rotate. A nil next means that a secret is generated. It returns how many values this call
// resealed; other instances may have resealed some.
func (s *Secrets) Rotate(ctx context.Context, next *seal.Key) (resealed int, err error) {
	if err := s.refresh(ctx); err != nil {
		return 0, err
	}
	id, err := s.begin(ctx, next)
	if err != nil {
		return 0, err
	}
	if err := s.wait(ctx); err != nil {
		return 0, err
	}
	// Another process may have resumed the same rotation.
	if err := s.db.Secrets.Use(ctx, id, time.Now()); err != nil && !errors.Is(err, store.ErrNotFound) {
		return 0, err
	}
	if err := s.refresh(ctx); err != nil {
		return 0, err
	}
	if err := s.writeFile(); err != nil {
		return 0, err
	}
	if err := s.wait(ctx); err != nil {
		return 0, err
	}
	return s.reseal(ctx)
}

// begin stores a new pending secret, or returns the one that is pending already.
func (s *Secrets) begin(ctx context.Context, next *seal.Key) (id string, err error) {
	for _, x := range s.State() {
		switch {
		case next != nil && x.ID == next.ID && !x.Used.IsZero():
			return "", problem.New(problem.Conflict, msgSecretHere)
		case x.Used.IsZero() && next != nil && x.ID != next.ID:
			return "", problem.New(problem.Conflict, msgAnotherWaits)
		case x.Used.IsZero():
			return x.ID, nil
		}
	}
	if next == nil {
		if next, err = seal.NewKey(seal.NewSecret()); err != nil {
			return "", err
		}
	}
	now, used := time.Now(), s.State()[0].Used
	current := s.Box.Key()
	// An instance that starts with either secret can unwrap the other one.
	return next.ID, s.db.Secrets.Add(ctx,
		store.Secret{ID: next.ID, SealedBy: next.ID, Sealed: next.Wrap(next), Made: now},
		store.Secret{ID: next.ID, SealedBy: current.ID, Sealed: current.Wrap(next), Made: now},
		store.Secret{ID: current.ID, SealedBy: next.ID, Sealed: next.Wrap(current), Made: now, Used: used})
}

// wait gives other instances time to read a change, if there may be any.
func (s *Secrets) wait(ctx context.Context) error {
	if err := s.refresh(ctx); err != nil {
		return err
	}
	if s.db.Dialect() == "sqlite" {
		if _, err := FindRunning(s.config.Data); errors.Is(err, ErrNotRunning) {
			return nil
		}
	}
	return s.settle(ctx)
}

// reseal seals with the current key the values that were sealed with another.
func (s *Secrets) reseal(ctx context.Context) (int, error) {
	if len(s.Box.Keys()) < 2 {
		return 0, nil
	}
	return s.db.Secrets.EachSealed(ctx, s.Box.Reseal)
}

// writeFile writes the current secret to the data folder, unless a secret is configured.
func (s *Secrets) writeFile() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	current := s.Box.Key()
	if s.config.Secret != "" || s.own.ID == current.ID {
		return nil
	}
	if err := seal.WriteFile(s.config.Data, current); err != nil {
		return err
	}
	s.own = current
	return nil
}

// Forget drops all secrets but the current one. Credentials that boards, nodes and programs got
// under an old secret become invalid.
func (s *Secrets) Forget(ctx context.Context) error {
	if err := s.refresh(ctx); err != nil {
		return err
	}
	if list := s.State(); !list[0].Own {
		return problem.New(problem.Conflict, msgOldSecret)
	}
	// A slow instance may have sealed a value with the old secret in the meantime.
	if _, err := s.reseal(ctx); err != nil {
		return err
	}
	if err := s.db.Secrets.KeepOnly(ctx, s.Box.Key().ID); err != nil {
		return err
	}
	return s.refresh(ctx)
}

// Pending returns since when a secret has been pending; zero if none is.
func (s *Secrets) Pending() time.Time {
	for _, x := range s.State() {
		if x.Used.IsZero() {
			return x.Made
		}
	}
	return time.Time{}
}

// DiscardSecret gives an installation whose secret is lost a new one: the configured one, or the
// one in the data folder, which is generated if there is none. Values sealed before become
// unreadable and have to be entered again. It returns an error if the secret is not lost.
func DiscardSecret(ctx context.Context, c *config.Config, log *slog.Logger) error {
	own, err := ownSecret(c)
	if err != nil {
		return Explain(err)
	}
	db, err := store.Open(ctx, store.Options{URL: c.Database.URL, Folder: c.Data, MaxConns: c.Database.MaxConns})
	if err != nil {
		return Explain(err)
	}
	_, err = openSecrets(ctx, c, db, own, log)
	switch {
	case err == nil:
		err = msgSecretThere.Errorf()
	case errors.Is(err, errNoSecret), errors.Is(err, errStrangeSecret):
		err = discardSecret(ctx, c, db, own, log)
	}
	return errors.Join(err, db.Close())
}

func discardSecret(ctx context.Context, c *config.Config, db *store.DB, own *seal.Key, log *slog.Logger) error {
	if err := db.Secrets.Discard(ctx); err != nil {
		return err
	}
	s, err := newSecrets(c, db, own, log)
	if err != nil {
		return err
	}
	if err := s.take(ctx); err != nil {
		return err
	}
	return db.AdminEvents.Add(ctx, store.AdminEvent{ID: uuid.Must(uuid.NewV7()).String(), At: time.Now(),
		Action: control.EventSecretLost, About: s.own.ID, Channel: "cli"})
}

// secretActions are the operations on the secrets for people.
func (b *Base) secretActions() control.SecretActions {
	return control.SecretActions{
		State: b.Secrets.State,
		Current: func() (id, secret string) {
			k := b.Box.Key()
			return k.ID, k.Secret()
		},
		Rotate: func(ctx context.Context, secret string) (int, error) {
			if secret == "" {
				return b.Secrets.Rotate(ctx, nil)
			}
			next, err := seal.NewKey(secret)
			if err != nil {
				return 0, control.InputProblem(problem.Invalid, err)
			}
			return b.Secrets.Rotate(ctx, next)
		},
		Forget: b.Secrets.Forget,
	}
}
