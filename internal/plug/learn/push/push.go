// Package push sends reminders to the browsers that people chose for it, by Web Push. The key of
// the installation, and the addresses of browsers, are sealed in the database.
package push

import (
	"cmp"
	"context"
	"crypto/ecdsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"patchbay/internal/i18n"
	"patchbay/internal/plug/learn/remind"
	"patchbay/internal/problem"
	"patchbay/internal/seal"
	"patchbay/internal/store"
	"patchbay/internal/webpush"
)

const (
	// maxDevices limits the browsers of a person; the oldest makes room for another one.
	maxDevices = 10
	maxName    = 100 // bytes of the name of a browser
	// sendTimeout limits one message to one browser.
	sendTimeout = 10 * time.Second
	// keepFor is how long a push service keeps a reminder for a browser that is off: the next one
	// comes a day later.
	keepFor = 12 * time.Hour
)

// Errors for people.
const (
	msgBadBrowser = i18n.Message("This browser gave an address for messages that cannot be used.")
	msgNoBrowser  = i18n.Message("There is no such device.")
)

// errNone is returned if a person has no browser to remind.
var errNone = errors.New("the person has chosen no browser for reminders")

// Options configures a [Service].
type Options struct {
	Store *store.DB
	Box   *seal.Box
	// Client must refuse to connect to anything but the public internet: browsers choose the
	// addresses.
	Client *http.Client
	// Subject is the https or mailto address by which operators of push services reach whoever runs
	// the installation.
	Subject    string
	Logger     *slog.Logger          // nil: no logging
	Registerer prometheus.Registerer // nil: no metrics
	Now        func() time.Time      // nil: time.Now
}

// Service knows the browsers of people. It is safe for concurrent use.
type Service struct {
	Options
	sent *prometheus.CounterVec

	mu  sync.Mutex
	key *ecdsa.PrivateKey // nil before its first use
}

// New returns a service.
func New(o Options) *Service {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	c := http.Client{Timeout: sendTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	if o.Client != nil {
		c.Transport = o.Client.Transport
	}
	o.Client = &c
	s := &Service{Options: o, sent: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "patchbay_learn_pushes_total", Help: "Messages to browsers about points to review."}, []string{"outcome"})}
	if o.Registerer != nil {
		o.Registerer.MustRegister(s.sent)
	}
	return s
}

// sender returns the sender with the key of the installation, which it makes if there is none.
func (s *Service) sender(ctx context.Context) (*webpush.Sender, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.key == nil {
		key, err := s.loadKey(ctx)
		if err != nil {
			return nil, fmt.Errorf("the key for push services: %w", err)
		}
		s.key = key
	}
	return &webpush.Sender{Key: s.key, Subject: s.Subject, Client: s.Client, Now: s.Now}, nil
}

func (s *Service) loadKey(ctx context.Context) (*ecdsa.PrivateKey, error) {
	sealed, err := s.Store.PushDevices.Key(ctx, "", s.Now())
	if errors.Is(err, store.ErrNotFound) {
		key, err := webpush.NewKey()
		if err != nil {
			return nil, err
		}
		raw, err := x509.MarshalECPrivateKey(key)
		if err != nil {
			return nil, err
		}
		text := s.Box.Seal(base64.StdEncoding.EncodeToString(raw))
		// Another instance may have been faster: then its key counts.
		if sealed, err = s.Store.PushDevices.Key(ctx, text, s.Now()); err != nil {
			return nil, err
		}
		return s.openKey(sealed)
	}
	if err != nil {
		return nil, err
	}
	return s.openKey(sealed)
}

func (s *Service) openKey(sealed string) (*ecdsa.PrivateKey, error) {
	text, err := s.Box.Open(sealed)
	if err != nil {
		return nil, err
	}
	raw, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil, err
	}
	return x509.ParseECPrivateKey(raw)
}

// PublicKey returns the key with which browsers subscribe.
func (s *Service) PublicKey(ctx context.Context) (string, error) {
	sender, err := s.sender(ctx)
	if err != nil {
		return "", err
	}
	return webpush.PublicKey(sender.Key)
}

// Subscribe adds a browser of a person. If it was somebody else's before, it is not any more. The
// error is of code [problem.Invalid] if the subscription cannot be used.
func (s *Service) Subscribe(ctx context.Context, person, name string, to webpush.Subscription) error {
	if to.Validate() != nil {
		return problem.New(problem.Invalid, msgBadBrowser)
	}
	text, err := json.Marshal(to)
	if err != nil {
		return err
	}
	sum := sha256.Sum256([]byte(to.Endpoint))
	if len(name) > maxName {
		name = strings.ToValidUTF8(name[:maxName], "")
	}
	return s.Store.PushDevices.Save(ctx, store.PushDevice{ID: uuid.Must(uuid.NewV7()).String(), Person: person,
		Hash: hex.EncodeToString(sum[:]), Sealed: s.Box.Seal(string(text)), Name: name, Created: s.Now()}, maxDevices)
}

// Devices lists the browsers of a person, the newest first.
func (s *Service) Devices(ctx context.Context, person string) ([]store.PushDevice, error) {
	return s.Store.PushDevices.Of(ctx, person)
}

// Remove removes a browser of a person.
func (s *Service) Remove(ctx context.Context, person, id string) error {
	err := s.Store.PushDevices.Remove(ctx, person, id)
	if errors.Is(err, store.ErrNotFound) {
		return problem.New(problem.NotFound, msgNoBrowser)
	}
	return err
}

// Notice is a message that a browser shows.
type Notice struct {
	Title string `json:"title"`
	Text  string `json:"text"`
	// Tag is the same for messages of which a newer one replaces the older.
	Tag  string `json:"tag"`
	Path string `json:"path"` // on this server; a click opens it
}

// Send sends a message to all browsers of a person, and returns how many push services took it. A
// browser that is not subscribed any more is removed. The error is about the first that failed.
func (s *Service) Send(ctx context.Context, person string, n Notice) (sent int, err error) {
	devices, err := s.Devices(ctx, person)
	if err != nil || len(devices) == 0 {
		return 0, err
	}
	sender, err := s.sender(ctx)
	if err != nil {
		return 0, err
	}
	text, err := json.Marshal(n)
	if err != nil {
		return 0, err
	}
	// At once, so that a push service that hangs keeps nothing from the others.
	results := make([]error, len(devices))
	var sending sync.WaitGroup
	for i, d := range devices {
		sending.Go(func() { results[i] = s.sendTo(ctx, sender, d, text) })
	}
	sending.Wait()
	for i, d := range devices {
		switch {
		case results[i] == nil:
			sent++
			s.sent.WithLabelValues("sent").Inc()
		case errors.Is(results[i], webpush.ErrGone):
			s.sent.WithLabelValues("gone").Inc()
			s.removeGone(ctx, d)
		default:
			s.sent.WithLabelValues("failed").Inc()
			err = cmp.Or(err, results[i])
		}
	}
	return sent, err
}

// removeGone removes a browser that is not subscribed any more.
func (s *Service) removeGone(ctx context.Context, d store.PushDevice) {
	err := s.Store.PushDevices.Remove(ctx, d.Person, d.ID)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		s.Logger.WarnContext(ctx, "a device that is gone could not be removed", "device", d.ID, "error", err)
	}
}

func (s *Service) sendTo(ctx context.Context, sender *webpush.Sender, d store.PushDevice, message []byte) error {
	plain, err := s.Box.Open(d.Sealed)
	if err != nil {
		return err
	}
	var to webpush.Subscription
	if err := json.Unmarshal([]byte(plain), &to); err != nil {
		return errors.New("the subscription cannot be read")
	}
	if err := sender.Send(ctx, &to, message, keepFor, "learn"); err != nil {
		return err
	}
	if err := s.Store.PushDevices.MarkSent(ctx, d.ID, s.Now()); err != nil { // it was sent all the same
		s.Logger.WarnContext(ctx, "when a reminder was sent could not be stored", "device", d.ID, "error", err)
	}
	return nil
}

// Remind is the sender of reminders by this way.
func (s *Service) Remind(ctx context.Context, person string, m remind.Message) error {
	sent, err := s.Send(ctx, person, Notice{Title: m.Title, Text: m.Text, Tag: "learn", Path: "/learn/offline"})
	if err == nil && sent == 0 {
		return errNone
	}
	return err
}
