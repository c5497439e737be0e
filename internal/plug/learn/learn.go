// Package learn keeps what people want to remember: knowledge points, when each is
// reviewed again, and every review there was. It offers them as tools.
//
// A request's way: tools.go lists the tools, call.go reads their arguments and calls
// a method of [Service]; points.go, review.go, queue.go, decks.go and stats.go are
// those methods; shapes.go writes what comes back. When a point comes again is said
// by package schedule, how well it is remembered by package fsrs. What all of them
// change of a point goes through store.Learn.Change, in one transaction.
package learn

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"patchbay/internal/plug/learn/schedule"
	"patchbay/internal/store"
	"patchbay/internal/talk"
)

// Limits of what one person keeps; they protect the database and the reader.
const (
	MaxText     = 64 << 10 // bytes of a question, of an answer, and of a recall
	maxTags     = 20       // of a point
	maxTagBytes = 100
	maxDecks    = 500
	maxName     = 200 // bytes of a deck's name
)

// TrashKeep is how long a deleted point can be brought back.
const TrashKeep = 30 * 24 * time.Hour

// Errors that callers decide by.
var (
	ErrNotFound = errors.New("knowledge point not found")
	ErrNoPlan   = errors.New("no incomplete review schedule found")
)

// Invalid is an error about what a caller gave, in words the caller can act on.
type Invalid struct {
	Text string // in English, for programs and models
	Say  talk.Say
	Args []any // of Say
}

func (e *Invalid) Error() string { return e.Text }

// In is the error in a language.
func (e *Invalid) In(l talk.Lang) string { return e.Say.In(l, e.Args...) }

func invalid(s talk.Say, args ...any) error { return &Invalid{s.In(talk.English, args...), s, args} }

var sayPlain = talk.Say{Zh: "%s", En: "%s"}

// Options make a service.
type Options struct {
	Store  *store.DB
	Logger *slog.Logger
	// Zone is where people live who did not say where; nil: where the server is.
	Zone *time.Location
	// Now is the clock; nil: the real one.
	Now func() time.Time
	// Registerer takes the metrics; nil: there are none.
	Registerer prometheus.Registerer
	// Model asks a person's model; nil: nobody has one.
	Model Model
	// Embedder makes vectors of texts; nil: there is none.
	Embedder Embedder
}

// Model asks one of a person's bots something and returns its whole answer.
// [ErrNoModel] says that there is none to ask.
type Model func(ctx context.Context, person string, p Prompt) (string, error)

// Prompt is what a model is asked.
type Prompt struct {
	// Bot is a number or a name; empty: whichever of the person's bots is a model.
	Bot   string
	Text  string
	Image *talk.Image // nil: none
}

// ErrNoModel says that a person has no model to ask.
var ErrNoModel = errors.New("no model is set up to judge")

// Embedder turns texts into vectors of one length.
type Embedder interface {
	// Model names what makes the vectors; those of different models cannot be
	// compared.
	Model() string
	// Embed returns one vector for each text.
	Embed(ctx context.Context, texts []string) ([][]float32, error)
}

// Service is Learn. It is safe for concurrent use.
type Service struct {
	Options
	vectors   vectors
	reviews   *prometheus.CounterVec
	importing chan struct{} // holds whose file is received and imported
}

// importsMost bounds how many files are received and imported at a time, by pages and by
// programs together. Each may keep a processor busy for a minute, and what it unpacks to on
// the disk.
const importsMost = 2

// ReserveImport takes a place for an import, before its file is received, until release. It
// is false if there is none.
func (s *Service) ReserveImport() (release func(), ok bool) {
	select {
	case s.importing <- struct{}{}:
		return func() { <-s.importing }, true
	default:
		return nil, false
	}
}

// New makes a service.
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
	s := &Service{Options: o, importing: make(chan struct{}, importsMost), reviews: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "patchbay_learn_reviews_total", Help: "Reviews of knowledge points."}, []string{"door", "grade"})}
	if o.Registerer != nil {
		o.Registerer.MustRegister(s.reviews)
	}
	return s
}

// Profile is what a person decided about learning.
type Profile struct {
	// Zone is where the person lives, such as "Asia/Shanghai"; empty: where the
	// server is.
	Zone string `json:"time_zone,omitempty"`
	// DayStart is when the person's day begins, such as "04:00", which is also the
	// default: who learns after midnight learns for the day before.
	DayStart string `json:"day_start,omitempty"`
	// Bot is the number or name of the bot that judges recalls; empty: the first
	// model there is. "none": nobody judges.
	Bot string `json:"bot,omitempty"`
	// Strictness is how recalls are judged: "lenient", "normal" or "strict".
	Strictness string `json:"strictness,omitempty"`
	// Defaults are what all decks have in common, where it differs from
	// [schedule.Default].
	Defaults json.RawMessage `json:"defaults,omitempty"`
	Remind   Remind          `json:"remind,omitzero"`
}

// Remind says when and how a person is told that points are due.
type Remind struct {
	At      string   `json:"at,omitempty"`  // such as "20:00"; empty: never
	Via     []string `json:"via,omitempty"` // "glasses", "webhook", "calendar"
	Webhook string   `json:"webhook,omitempty"`
}

// defaultDayStart is when a day begins for who said nothing.
const defaultDayStart = 4 * time.Hour

// Calendar is the person's calendar. A zone or time that cannot be read counts as
// not given.
func (p *Profile) Calendar(otherwise *time.Location) schedule.Calendar {
	cal := schedule.Calendar{Zone: otherwise, Start: defaultDayStart}
	if zone, err := time.LoadLocation(p.Zone); err == nil && p.Zone != "" {
		cal.Zone = zone
	}
	if start, err := parseClock(p.DayStart); err == nil {
		cal.Start = start
	}
	return cal
}

// parseClock reads a time of day such as "04:00".
func parseClock(s string) (time.Duration, error) {
	h, m, ok := strings.Cut(s, ":")
	hour, err1 := strconv.Atoi(h)
	minute, err2 := strconv.Atoi(m)
	if !ok || err1 != nil || err2 != nil || hour < 0 || hour > 23 || minute < 0 || minute > 59 || len(m) != 2 {
		return 0, invalid(talk.Say{Zh: "%q 不是 04:00 这样的时间", En: "%q is not a time of day such as 04:00"}, s)
	}
	return time.Duration(hour)*time.Hour + time.Duration(minute)*time.Minute, nil
}

// validate says what is wrong with a profile.
func (p *Profile) validate() error {
	if p.Zone != "" {
		if _, err := time.LoadLocation(p.Zone); err != nil || p.Zone == "Local" {
			return invalid(talk.Say{Zh: "没有时区 %q，请写成 Asia/Shanghai 或 Europe/Berlin 这样", En: "there is no time zone %q; it should be like Asia/Shanghai or Europe/Berlin"}, p.Zone)
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
		return invalid(talk.Say{Zh: "strictness 是 lenient、normal 或 strict，不是 %q", En: "strictness is lenient, normal or strict, not %q"}, p.Strictness)
	}
	for _, way := range p.Remind.Via {
		switch way {
		case "glasses", "webhook", "calendar":
		default:
			return invalid(talk.Say{Zh: "提醒的方式是 glasses、webhook 或 calendar，不是 %q", En: "a reminder goes by glasses, webhook or calendar, not by %q"}, way)
		}
	}
	if _, err := schedule.Default().With(p.Defaults); err != nil {
		return invalid(sayPlain, err)
	}
	return nil
}

// Learner is a person with what they decided, as of one moment.
type Learner struct {
	Person   string
	Profile  Profile
	Calendar schedule.Calendar
	Decks    []store.Deck // by name, without the one that everybody has
	Now      time.Time
	Today    store.Day

	common schedule.Settings
}

// Learner looks a person up.
func (s *Service) Learner(ctx context.Context, person string) (*Learner, error) {
	row, err := s.Store.Learn.Learner(ctx, person)
	if err != nil {
		return nil, fmt.Errorf("look up who learns: %w", err)
	}
	decks, err := s.Store.Learn.Decks(ctx, person)
	if err != nil {
		return nil, fmt.Errorf("look up decks: %w", err)
	}
	l := &Learner{Person: person, Decks: decks, Now: s.Now()}
	if err := json.Unmarshal(row.Settings, &l.Profile); err != nil {
		return nil, fmt.Errorf("read the settings of who learns: %w", err)
	}
	l.Calendar = l.Profile.Calendar(s.Zone)
	l.Today = l.Calendar.Day(l.Now)
	if l.common, err = schedule.Default().With(l.Profile.Defaults); err != nil {
		return nil, fmt.Errorf("read the settings of who learns: %w", err)
	}
	return l, nil
}

// Settings are those of a deck, by its id.
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

// DefaultDeck is the name of the deck that everybody has.
const DefaultDeck = "default"

// DeckName is the name of a deck, by its id.
func (l *Learner) DeckName(id string) string {
	if d := l.deck(id); d != nil {
		return d.Name
	}
	return DefaultDeck
}

// DeckID finds a deck by its name, or by its id.
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

// NoDeck is the error about a deck that does not exist; it names those that do.
func (l *Learner) NoDeck(name string) error {
	names := []string{DefaultDeck}
	for _, d := range l.Decks[:min(len(l.Decks), 20)] {
		names = append(names, d.Name)
	}
	return invalid(talk.Say{Zh: "没有牌组 %q；有：%s", En: "there is no deck %q; there are: %s"}, clip(name, 100), strings.Join(names, ", "))
}

// clip shortens a text for a message.
func clip(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}

func newID() string { return uuid.Must(uuid.NewV7()).String() }
