// Package learn keeps the knowledge points that people want to remember, the date of each next
// review, and a log of all reviews. It offers them as tools.
//
// The path of a request: tools.go lists the tools, call.go reads the arguments and calls a method
// of [Service] (points.go, review.go, queue.go, decks.go, stats.go), and rows.go builds the result.
// Package schedule computes the next date of a point; package fsrs estimates how well it is
// remembered. Every change of a point goes through store.Learn.Change, in one transaction.
//
// The original service, in comments here and in the packages below, is
// github.com/MrYang2016/learn-assistant at 1c398d0: its programs and exports work with Learn.
package learn

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"patchbay/internal/i18n"
	"patchbay/internal/plug/learn/schedule"
	"patchbay/internal/problem"
	"patchbay/internal/store"
	"patchbay/internal/talk"
)

// Limits of what one person stores; they protect the database and readers.
const (
	MaxText     = 64 << 10 // bytes of a question, of an answer, and of a recall
	maxTags     = 20       // of a point
	maxTagBytes = 100
	maxDecks    = 500
	maxName     = 200 // bytes of a deck's name
)

// TrashRetention is how long a deleted point can be restored.
const TrashRetention = 30 * 24 * time.Hour

// Errors that callers tell apart.
var (
	ErrNotFound = errors.New("knowledge point not found")
	ErrNoPlan   = errors.New("no incomplete review schedule found")
)

func invalid(m i18n.Message, args ...any) error { return problem.New(problem.Invalid, m, args...) }

const msgPlain = i18n.Message("%s")

// Options configure a [Service].
type Options struct {
	Store  *store.DB
	Logger *slog.Logger
	// Zone is the time zone of people who set none, here or for their account; nil means the
	// server's.
	Zone *time.Location
	// Now returns the current time; nil means time.Now.
	Now func() time.Time
	// Registerer takes the metrics; nil means no metrics.
	Registerer prometheus.Registerer
	// Model asks a person's model; nil means that nobody has one.
	Model Model
	// Embedder makes vectors of texts; nil means no search by meaning.
	Embedder Embedder
	// MediaTotal limits the pictures and sounds of a person together, in bytes; 0 means
	// [DefaultMediaTotal].
	MediaTotal int64
	// Dial connects to the addresses of pictures and sounds, which are untrusted; nil means that
	// none is fetched.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// Model sends a prompt to one of a person's bots and returns the whole answer. It fails with
// [ErrNoModel] if the person has no model.
type Model func(ctx context.Context, person string, p Prompt) (string, error)

// Prompt is a request to a model.
type Prompt struct {
	// Bot is a number or a name; empty means any of the person's bots that is a model.
	Bot   string
	Text  string
	Image *talk.Image // nil: none
}

// ErrNoModel is returned when a person has no model.
var ErrNoModel = errors.New("no model is set up to judge")

// Embedder turns texts into vectors of one length.
type Embedder interface {
	// Model names the model; vectors of different models cannot be compared.
	Model() string
	// Embed returns one vector for each text.
	Embed(ctx context.Context, texts []string) ([][]float32, error)
}

// Service implements the operations of Learn. It is safe for concurrent use.
type Service struct {
	Options
	vectors   vectors
	reviews   *prometheus.CounterVec
	importing chan struct{} // one slot per file being received or imported
	fitting   chan struct{} // one slot per person whose weights are being fitted

	callTimeout time.Duration // databaseTimeout; tests change it
}

// maxImports limits how many files are received and imported concurrently, by web pages and
// programs together. Each may use a processor for a minute, and disk space for its unpacked
// contents.
const maxImports = 2

// ReserveImport reserves a slot for an import before its file is received. The caller must call
// release. ok is false if no slot is free.
func (s *Service) ReserveImport() (release func(), ok bool) {
	select {
	case s.importing <- struct{}{}:
		return func() { <-s.importing }, true
	default:
		return nil, false
	}
}

// New returns a service.
func New(o Options) *Service {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Zone == nil {
		o.Zone = time.Local
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Service{Options: o, importing: make(chan struct{}, maxImports),
		fitting: make(chan struct{}, maxFits), callTimeout: databaseTimeout,
		reviews: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "patchbay_learn_reviews_total",
			Help: "Reviews of knowledge points."}, []string{"channel", "grade"})}
	if o.Registerer != nil {
		o.Registerer.MustRegister(s.reviews)
	}
	return s
}

// Profile holds a person's settings for learning.
type Profile struct {
	// Zone is the person's time zone, such as "Asia/Shanghai"; empty means their account's, or
	// else the server's.
	Zone string `json:"time_zone,omitempty"`
	// DayStart is when the person's day begins, "04:00" by default: learning after midnight counts
	// for the day before.
	DayStart string `json:"day_start,omitempty"`
	// Bot is the number or name of the bot that judges recalls; empty means the first model, "none"
	// that no model judges.
	Bot string `json:"bot,omitempty"`
	// Strictness is how strictly recalls are judged: "lenient", "normal" or "strict".
	Strictness string `json:"strictness,omitempty"`
	// Defaults are the common settings of all decks, where they differ from [schedule.Default].
	Defaults json.RawMessage `json:"defaults,omitempty"`
	Remind   Remind          `json:"remind,omitzero"`
	// FitMonthly lets the weights of the memory model be fitted to the person's reviews each month.
	FitMonthly bool `json:"fit_monthly,omitempty"`
}

// Remind configures the reminders that points are due.
type Remind struct {
	At      string   `json:"at,omitempty"`  // such as "20:00"; empty: never
	Via     []string `json:"via,omitempty"` // "glasses", "push", "webhook", "calendar"
	Webhook string   `json:"webhook,omitempty"`
}

// defaultDayStart is when a day begins unless the profile says otherwise.
const defaultDayStart = 4 * time.Hour

// Calendar returns the person's calendar, in the time zone of their account, or another one, if the
// profile has none. A zone or time that cannot be parsed is ignored.
func (p *Profile) Calendar(account string, otherwise *time.Location) schedule.Calendar {
	cal := schedule.Calendar{Zone: otherwise, Start: defaultDayStart}
	for _, name := range []string{p.Zone, account} {
		if zone, err := time.LoadLocation(name); err == nil && name != "" {
			cal.Zone = zone
			break
		}
	}
	if start, err := parseClock(p.DayStart); err == nil {
		cal.Start = start
	}
	return cal
}

// parseClock parses a time of day such as "04:00".
func parseClock(s string) (time.Duration, error) {
	h, m, ok := strings.Cut(s, ":")
	hour, err1 := strconv.Atoi(h)
	minute, err2 := strconv.Atoi(m)
	if !ok || err1 != nil || err2 != nil || hour < 0 || hour > 23 || minute < 0 || minute > 59 || len(m) != 2 {
		return 0, invalid(i18n.Message("%q is not a time of day such as 04:00"), s)
	}
	return time.Duration(hour)*time.Hour + time.Duration(minute)*time.Minute, nil
}

// validate returns an error about the first invalid field.
func (p *Profile) validate() error {
	if p.Zone != "" {
		if _, err := time.LoadLocation(p.Zone); err != nil || p.Zone == "Local" {
			return invalid(i18n.Message("there is no time zone %q; it should be like Asia/Shanghai or Europe/Berlin"),
				p.Zone)
		}
	}
	for _, clock := range []string{p.DayStart, p.Remind.At} {
		if _, err := parseClock(clock); err != nil && clock != "" {
			return err
		}
	}
	switch p.Strictness {
	case "", "lenient", "normal", "strict":
	default:
		return invalid(i18n.Message("strictness is lenient, normal or strict, not %q"), p.Strictness)
	}
	for _, way := range p.Remind.Via {
		switch way {
		case "glasses", "push", "webhook", "calendar":
		default:
			return invalid(i18n.Message("a reminder goes by glasses, push, webhook or calendar, not by %q"), way)
		}
	}
	if _, err := schedule.Default().With(p.Defaults); err != nil {
		return invalid(msgPlain, err)
	}
	return nil
}

// Learner is a person's learning state at one moment: profile, decks, calendar and day.
type Learner struct {
	Person   string
	Profile  Profile
	Calendar schedule.Calendar
	Decks    []store.Deck // by name, without the default deck
	Now      time.Time
	Today    store.Day

	common schedule.Settings
}

// Learner loads a person's profile and decks.
func (s *Service) Learner(ctx context.Context, person string) (*Learner, error) {
	row, decks, err := s.Store.Learn.LearnerWithDecks(ctx, person)
	if err != nil {
		return nil, fmt.Errorf("look up who learns: %w", err)
	}
	l := &Learner{Person: person, Decks: decks, Now: s.Now()}
	if err := json.Unmarshal(row.Settings, &l.Profile); err != nil {
		return nil, fmt.Errorf("read the settings of who learns: %w", err)
	}
	l.Calendar = l.Profile.Calendar(row.Zone, s.Zone)
	l.Today = l.Calendar.Day(l.Now)
	if l.common, err = schedule.Default().With(l.Profile.Defaults); err != nil {
		return nil, fmt.Errorf("read the settings of who learns: %w", err)
	}
	return l, nil
}

// Settings returns the settings of a deck, by its ID.
func (l *Learner) Settings(deck string) schedule.Settings {
	if d := l.deck(deck); d != nil {
		if s, err := l.common.With(d.Settings); err == nil {
			return s
		}
	}
	return l.common
}

func (l *Learner) deck(id string) *store.Deck {
	for i := range l.Decks {
		if l.Decks[i].ID == id {
			return &l.Decks[i]
		}
	}
	return nil
}

// DefaultDeck is the name of the deck that every person has.
const DefaultDeck = "default"

// DeckName returns the name of a deck, by its ID.
func (l *Learner) DeckName(id string) string {
	if d := l.deck(id); d != nil {
		return d.Name
	}
	return DefaultDeck
}

// DeckID returns the ID of a deck, by its name or ID.
func (l *Learner) DeckID(name string) (string, bool) {
	if name == "" || strings.EqualFold(name, DefaultDeck) {
		return "", true
	}
	for _, d := range l.Decks {
		if d.Name == name || d.ID == name {
			return d.ID, true
		}
	}
	for _, d := range l.Decks {
		if strings.EqualFold(d.Name, name) {
			return d.ID, true
		}
	}
	return "", false
}

// DeckNotFound returns the error for an unknown deck; it lists the existing ones.
func (l *Learner) DeckNotFound(name string) error {
	names := []string{DefaultDeck}
	for _, d := range l.Decks[:min(len(l.Decks), 20)] {
		names = append(names, d.Name)
	}
	return invalid(i18n.Message("there is no deck %q; there are: %s"), truncateBytes(name, 100),
		strings.Join(names, ", "))
}

// truncateBytes shortens a text for an error message.
func truncateBytes(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}

func newID() string { return uuid.Must(uuid.NewV7()).String() }
