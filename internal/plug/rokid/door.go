// Package rokid connects Rokid glasses: the door through which their platform
// (Lingzhu) asks, the binding of wearers to bots by QR code, and the push of
// late answers.
//
// A question's way: [Door.ServeHTTP] checks the key and reads the body
// (request.go), finds the bot (route.go) or binds the wearer (bind.go), and puts
// the turn to the board. The answer passes through the display's filter and
// pager (display.go) and out as server-sent events (stream.go).
//
// The platform shows a wearer only what comes as an answer. So whatever a wearer
// can bring about is answered in words, and only what a program did wrong is
// answered as an error.
package rokid

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"patchbay/internal/account"
	"patchbay/internal/board"
	"patchbay/internal/fetch"
	"patchbay/internal/store"
	"patchbay/internal/talk"
)

// DoorName is the door's name in turns and traces.
const DoorName = "lingzhu"

// Options make a door.
type Options struct {
	Accounts *account.Service
	Board    *board.Board
	Guard    *account.Guard
	// Photos fetches what wearers photographed; BindingPhotos the same for
	// people who are not bound yet, and so may be anybody.
	Photos, BindingPhotos *fetch.Fetcher
	Logger                *slog.Logger
	Streams               *account.Streams // ends turns of keys that do not hold any more; may be nil
	Registerer            prometheus.Registerer

	PublicURL     string        // told to wearers who are not bound yet
	Lang          talk.Lang     // for devices that tell none
	HTTPErrors    bool          // refuse keys with 401 instead of an error event
	QuietStart    bool          // send no comment before the first event
	Heartbeat     time.Duration // between comments while the bot thinks; 0: 7 s
	WaitingText   string        // said once after WaitingAfter without a piece; empty: nothing
	WaitingAfter  time.Duration // 0: 8 s
	Binding       bool          // unknown wearers may bind
	ImagesPerHour int           // pictures a wearer may send; 0: 60
	MaxBody       int64         // bytes of a body without pictures in it; 0: 1 MiB
	MaxImageBody  int64         // … and with; 0: 8 MiB
	PushURL       string        // of the service that pushes late answers; empty: none are pushed
	// Address finds a request's client, behind trusted proxies too.
	Address func(*http.Request) netip.Addr
}

// Door is the Lingzhu door. It is safe for concurrent use.
type Door struct {
	Options
	quota    *quota
	requests requests
	metrics  metrics
	pusher   *pusher // nil: nothing is pushed
}

// New makes a door, and has the board push late answers through it.
func New(o Options) *Door {
	if o.Heartbeat == 0 {
		o.Heartbeat = 7 * time.Second
	}
	if o.WaitingAfter == 0 {
		o.WaitingAfter = 8 * time.Second
	}
	if o.ImagesPerHour == 0 {
		o.ImagesPerHour = 60
	}
	if o.MaxBody == 0 {
		o.MaxBody = 1 << 20
	}
	if o.MaxImageBody == 0 {
		o.MaxImageBody = 8 << 20
	}
	d := &Door{Options: o, quota: newQuota(o.ImagesPerHour), metrics: newMetrics(o.Registerer)}
	if o.PushURL != "" {
		d.pusher = newPusher(o)
		o.Board.OnLate(DoorName, d.pusher.push)
	}
	return d
}

// call is one request on its way through the door.
type call struct {
	request
	lang      talk.Lang
	principal account.Principal
	wearer    store.Wearer // with an empty UserID if the platform sent none
	name      string       // of the HTTP request; see [talk.Turn]
	address   string
	stream    *stream
	handled   *handled
	bots      bool // the network delivers again what a bot answers
}

// ServeHTTP answers one turn.
func (d *Door) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		http.Error(w, "POST a turn here; see the manual's page on Rokid glasses", http.StatusMethodNotAllowed)
		return
	}
	principal, ok := d.authenticate(w, r)
	if !ok {
		return
	}
	c, err := d.read(w, r, d.MaxImageBody)
	c.principal, c.name, c.address = principal, talk.RequestOf(r.Header.Get("Traceparent")), d.Address(r).String()
	c.wearer = store.Wearer{Publisher: principal.Person.ID, UserID: c.UserID}
	c.lang = c.request.lang(d.Lang)
	c.stream = newStream(w, c.MessageID, c.AgentID, d.Heartbeat)
	if err != nil {
		d.refuse(r.Context(), c, err)
		return
	}
	ctx, leave := d.Streams.Watch(r.Context(), principal)
	defer leave()
	d.once(ctx, c)
}

// authenticate finds out whose key it is, or refuses it.
func (d *Door) authenticate(w http.ResponseWriter, r *http.Request) (account.Principal, bool) {
	secret := bearer(r)
	p, err := d.Accounts.Authenticate(r.Context(), secret, account.ScopeLingzhu)
	if err == nil {
		return p, true
	}
	if r.Context().Err() != nil {
		return p, false
	}
	addr := d.Address(r)
	if !account.Refused(err) {
		d.Logger.ErrorContext(r.Context(), "a key could not be checked", "error", err)
		if d.HTTPErrors {
			w.Header().Set("Retry-After", "5")
			writeJSON(w, http.StatusServiceUnavailable, map[string]string{"error": "the key could not be checked; try again in a moment"})
		} else {
			d.excuse(w, r)
		}
		return p, false
	}
	d.metrics.refused.WithLabelValues("key").Inc()
	tooMany := d.Guard.Refuse(addr)
	d.Logger.WarnContext(r.Context(), "a key was refused", "door", DoorName, "cause", err, "address", addr, "too_many", tooMany)
	message := "Invalid authentication token"
	if errors.Is(err, account.ErrNoKey) {
		message = "Missing Authorization header"
	}
	switch {
	case tooMany:
		w.Header().Set("Retry-After", "60")
		writeJSON(w, http.StatusTooManyRequests, map[string]string{"error": "too many refused keys from this address; wait a minute"})
	case d.HTTPErrors:
		w.Header().Set("WWW-Authenticate", "Bearer")
		writeJSON(w, http.StatusUnauthorized, map[string]string{"error": message})
	default:
		newStream(w, "", "", 0).fail(message, false)
	}
	return p, false
}

// excuseBody is how much is read of what somebody sends whose key could not be checked.
const excuseBody = 64 << 10

// excuse tells a wearer whose key could not be checked that it is our fault.
func (d *Door) excuse(w http.ResponseWriter, r *http.Request) {
	c, _ := d.read(w, r, excuseBody) //nolint:errcheck // what is known of it is enough
	newStream(w, c.MessageID, c.AgentID, 0).finish(talk.Fail(talk.Internal, "", nil).Sentence(c.request.lang(d.Lang)), nil)
}

// bearer is the secret of the Authorization header, or "".
func bearer(r *http.Request) string {
	scheme, secret, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(secret)
}

// read takes the body, of at most so many bytes. Even with an error the call has what is
// known.
func (d *Door) read(w http.ResponseWriter, r *http.Request, most int64) (*call, error) {
	const readLimit = 30 * time.Second
	http.NewResponseController(w).SetReadDeadline(time.Now().Add(readLimit)) //nolint:errcheck // not every connection has one
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, most))
	if err != nil {
		c := &call{request: beginningOf(body)}
		if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
			// Whoever is still sending would not see an answer, so some more is read first.
			io.Copy(io.Discard, io.LimitReader(r.Body, 2*d.MaxImageBody)) //nolint:errcheck // it is thrown away
			return c, errTooLarge
		}
		return c, fmt.Errorf("%w: %w", errCutOff, err)
	}
	http.NewResponseController(w).SetReadDeadline(time.Time{}) //nolint:errcheck // as above
	req, err := parseRequest(body)
	c := &call{request: req}
	if err == nil && int64(len(body)) > d.MaxBody && !hasDataURI(req.Images) {
		err = errTooLong
	}
	return c, err
}

func hasDataURI(images []string) bool {
	for _, im := range images {
		if strings.HasPrefix(strings.ToLower(im), "data:") {
			return true
		}
	}
	return false
}

// refuse answers a body that cannot be used.
//
// The context has often ended by then: a server gives up reading with it. What can still
// be written is written.
func (d *Door) refuse(ctx context.Context, c *call, err error) {
	d.metrics.refused.WithLabelValues("body").Inc()
	d.Logger.WarnContext(ctx, "a request was refused", "door", DoorName, "cause", err, "key", c.principal.Key.ID)
	bad, isJSON := errors.AsType[*errJSON](err)
	switch {
	case errors.Is(err, errTooLarge): // a wearer's photo, most likely
		c.say(sayBigImage.In(c.lang))
	case errors.Is(err, errTooLong):
		c.say(sayTooLong.In(c.lang))
	case errors.Is(err, errCutOff):
		c.say(sayCutOff.In(c.lang))
	case isJSON:
		c.stream.fail(bad.Error(), false)
	case errors.Is(err, errMissing):
		c.stream.fail(tellMissing, c.MessageID != "" || c.AgentID != "")
	}
}

// answer finds who is to answer, and lets them.
func (d *Door) answer(ctx context.Context, c *call) {
	to, err := d.route(ctx, c)
	if err != nil {
		d.stumble(ctx, c, err)
		return
	}
	switch {
	case to.bot != nil:
		d.turn(ctx, c, to)
	case to.bind:
		d.bind(ctx, c)
	default:
		d.metrics.refused.WithLabelValues("no_bot").Inc()
		d.Logger.WarnContext(ctx, "a request was refused", "door", DoorName, "cause", "no such bot", "agent_id", c.AgentID, "key", c.principal.Key.ID)
		c.stream.fail("Bot not found: "+c.AgentID, false)
	}
}

// stumble tells the wearer that it is our fault.
func (d *Door) stumble(ctx context.Context, c *call, err error) {
	if ctx.Err() != nil {
		return
	}
	d.Logger.ErrorContext(ctx, "a turn failed", "door", DoorName, "error", err)
	c.stream.forget() // who asks again may have more luck
	c.stream.finish(talk.Fail(talk.Internal, "", nil).Sentence(c.lang), nil)
}

// say answers the wearer in our own words.
func (c *call) say(text string) { c.stream.finish(text, nil) }

// turn puts what was said to a bot.
func (d *Door) turn(ctx context.Context, c *call, to destination) {
	var s Settings
	if err := d.Board.Registry.Settings(*to.bot, &s); err != nil {
		d.stumble(ctx, c, err)
		return
	}
	c.stream.start(s.QuietStart == nil && d.QuietStart || s.QuietStart != nil && *s.QuietStart)
	person := c.person()
	show := newDisplay(c, s)
	if !c.bots && d.ownAnswer(ctx, c, to, show) {
		return
	}
	c.toBot()
	if c.Text == "" && len(c.Images) == 0 {
		c.say(sayNotHeard.In(c.lang))
		return
	}
	turn := &talk.Turn{
		Bot: to.bot.Number, Door: DoorName, Person: person, Conversation: c.MessageID, Lang: c.lang, Address: c.address,
		Bound: c.principal.Key.Rules, Commands: commands, Metadata: c.Metadata, AgentID: c.AgentID, UserID: c.UserID, Request: c.name,
	}
	if c.Text != "" {
		turn.Parts = append(turn.Parts, talk.Part{Text: c.Text})
	}
	for _, addr := range c.Images {
		im, say := d.picture(ctx, c, d.Photos, addr)
		if im == nil {
			c.say(say)
			return
		}
		turn.Parts = append(turn.Parts, talk.Part{Image: im})
	}
	stopWaiting := d.waitingText(c, s)
	err := d.Board.Answer(ctx, turn, show.event)
	stopWaiting()
	d.end(ctx, c, turn, show, err)
}

// ownAnswer answers what the bot is not asked, and says whether it was such a thing.
func (d *Door) ownAnswer(ctx context.Context, c *call, to destination, show *display) bool {
	if to.bound && d.wearerCommand(ctx, c, *to.bot) {
		return true
	}
	bot, person := to.bot.Number, c.person()
	rest := d.nextPage(ctx, c, bot, person)
	if rest == "" {
		return false
	}
	show.page(rest)
	d.endPage(ctx, c, bot, person, show)
	return true
}

// commands are what glasses can do.
var commands = []string{talk.CommandTakePhoto, talk.CommandNavigate, talk.CommandCalendar, talk.CommandLeave}

// person is who asks, as the board knows them. Somebody without a user id is
// somebody else in each session.
func (c *call) person() string {
	if c.UserID == "" {
		return "lingzhu:" + c.principal.Person.ID + ":anonymous/" + c.MessageID
	}
	return "lingzhu:" + c.principal.Person.ID + ":" + c.UserID
}

// end sends the last words of an answer.
func (d *Door) end(ctx context.Context, c *call, turn *talk.Turn, show *display, err error) {
	if errors.Is(err, talk.ErrHungUp) {
		c.stream.stop()
		return
	}
	if err != nil {
		f := talk.AsFailure(err)
		switch {
		case f.Code == talk.TimedOut && show.answered():
			show.add(talk.SayCut.In(c.lang))
		case show.answered():
			show.add("\n" + f.Sentence(c.lang))
		default:
			show.add(f.Sentence(c.lang))
		}
	}
	d.endPage(ctx, c, turn.Bot, turn.Person, show)
}

// endPage finishes the stream, and keeps what did not fit for the next page.
// What is kept is on the disk before the wearer is told to ask for it.
func (d *Door) endPage(ctx context.Context, c *call, bot int64, person string, show *display) {
	last, rest := show.last()
	if show.pages {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), pageWrite)
		defer cancel()
		if err := d.Board.Store.Conversations.KeepRest(ctx, bot, person, rest, time.Now()); err != nil {
			d.Logger.ErrorContext(ctx, "the rest of an answer was not kept", "error", err)
		}
	}
	c.stream.finish(last, show.suggest)
}

// waitingText says once that it takes a while, if the owner wants that.
func (d *Door) waitingText(c *call, s Settings) (stop func()) {
	text := d.WaitingText
	if s.WaitingText != nil {
		text = *s.WaitingText
	}
	if text == "" {
		return func() {}
	}
	t := time.AfterFunc(d.WaitingAfter, func() {
		if !c.stream.hasAnswered() {
			c.stream.text(text + "\n") //nolint:errcheck // the answer's own writes will see it
		}
	})
	return func() { t.Stop() }
}

func (s *stream) hasAnswered() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.answered
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(v) //nolint:errcheck // the caller has gone
}
