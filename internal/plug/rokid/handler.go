// Package rokid connects Rokid glasses: the HTTP handler for requests of their platform (Lingzhu),
// the binding of wearers to bots by QR code, and the push of late answers.
//
// [Handler.ServeHTTP] checks the key and reads the body (request.go), finds the bot (route.go) or
// binds the wearer (bind.go), and passes the turn to the hub. The answer goes through the filter
// and pager of the display (display.go) and is written as server-sent events (stream.go).
//
// The platform shows a wearer only the text of an answer. Therefore a failure that a wearer can
// cause is answered with text; only the mistakes of a program are answered with an error event.
//
// The protocol is that of docs/ROKID_LINGZHU_SSE_API.md in sengmitnick/eyeclaw at 9fa98ce, called
// "the documentation" in this package. What the platform sends in practice is known from request
// logs, called "the logs": a production log of 2026-02-27 in the same repository, and
// skill/extension/logs in jiehui87/lingzhu-skill at 055da8f.
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
	"patchbay/internal/fetch"
	"patchbay/internal/hub"
	"patchbay/internal/i18n"
	"patchbay/internal/store"
	"patchbay/internal/talk"
	"patchbay/internal/tracing"
)

// ChannelName is the name of the channel in turns and traces.
const ChannelName = "lingzhu"

// Options configure a Handler.
type Options struct {
	Accounts *account.Service
	Hub      *hub.Hub
	Guard    *account.Guard
	// Photos fetches the photos of bound wearers; BindingPhotos fetches those of wearers who are
	// not bound yet and therefore not trusted.
	Photos, BindingPhotos *fetch.Fetcher
	Logger                *slog.Logger
	Streams               *account.Streams // cancels the turns of revoked keys; may be nil
	Registerer            prometheus.Registerer
	Tracer                *tracing.Tracer // continues the traces of the platform; nil: nothing is traced

	PublicURL     string        // shown to wearers who are not bound yet
	Lang          i18n.Lang     // for devices that send no language
	HTTPErrors    bool          // answer a bad key with 401 instead of an error event
	QuietStart    bool          // send no comment before the first event
	Heartbeat     time.Duration // between comments while the bot thinks; 0: 7 s
	WaitingText   string        // sent once after WaitingAfter without text; empty: nothing
	WaitingAfter  time.Duration // 0: 8 s
	Binding       bool          // unknown wearers may bind
	ImagesPerHour int           // limit of pictures per wearer; 0: 60
	MaxBody       int64         // bytes of a body without data: pictures; 0: 1 MiB
	MaxImageBody  int64         // bytes of a body with data: pictures; 0: 8 MiB
	PushURL       string        // of the push service for late answers; empty: no push
	// Address returns the client address of a request, also behind trusted proxies.
	Address func(*http.Request) netip.Addr
}

// Handler serves the requests of the Lingzhu platform. It is safe for concurrent use.
type Handler struct {
	Options
	quota   *quota
	recent  recentRequests
	metrics metrics
	pusher  *pusher // nil: no push
}

// New returns a Handler. If PushURL is set, it registers for late answers at the hub.
func New(o Options) *Handler {
	// The platform is reported to time out after 30 to 60 s (neochou/rokid-lingzhu-openclaw at
	// b6070b0, CHANGELOG.md). 7 s is the interval of EyeClaw's plugin (sdk/src/http-handler.ts) and
	// of davexxx1214/openclaw-lingzhu-skill.
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
	h := &Handler{Options: o, quota: newQuota(o.ImagesPerHour), metrics: newMetrics(o.Registerer)}
	if o.PushURL != "" {
		h.pusher = newPusher(o)
		o.Hub.OnLate(ChannelName, h.pusher.pushLate)
	}
	return h
}

// call is the state of one request.
type call struct {
	request
	lang       i18n.Lang
	principal  account.Principal
	wearer     store.Wearer // with an empty UserID if the platform sent none
	requestID  string       // of the HTTP request; see [talk.Turn]
	address    string
	stream     *stream
	tracked    *trackedRequest
	botAnswers bool // a repeat of a request that was passed to a bot; see repeat.go
}

// ServeHTTP answers one turn.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		http.Error(w, "POST a turn here; see the manual's page on Rokid glasses", http.StatusMethodNotAllowed)
		return
	}
	principal, ok := h.authenticate(w, r)
	if !ok {
		return
	}
	c, err := h.read(w, r, h.MaxImageBody)
	c.principal, c.requestID, c.address = principal, talk.ParseTraceparent(r.Header.Get("Traceparent")),
		h.Address(r).String()
	c.wearer = store.Wearer{Publisher: principal.Person.ID, UserID: c.UserID}
	c.lang = c.request.lang(h.Lang)
	c.stream = newStream(w, c.MessageID, c.AgentID, h.Heartbeat)
	if err != nil {
		h.refuse(r.Context(), c, err)
		return
	}
	ctx, stopWatching := h.Streams.Watch(r.Context(), principal)
	defer stopWatching()
	h.handleOnce(h.Tracer.Continue(ctx, h.Tracer.LinkOf(r.Header)), c)
}

// authenticate returns the principal of the request's key. If it returns false, it has answered
// the request, unless the client has gone.
func (h *Handler) authenticate(w http.ResponseWriter, r *http.Request) (account.Principal, bool) {
	secret := bearer(r)
	p, err := h.Accounts.Authenticate(r.Context(), secret, account.ScopeLingzhu)
	if err == nil {
		return p, true
	}
	if r.Context().Err() != nil {
		return p, false
	}
	addr := h.Address(r)
	if !account.Refused(err) {
		h.Logger.ErrorContext(r.Context(), "a key could not be checked", "error", err)
		if h.HTTPErrors {
			w.Header().Set("Retry-After", "5")
			writeJSON(w, http.StatusServiceUnavailable,
				map[string]string{"error": "the key could not be checked; try again in a moment"})
		} else {
			h.answerUnknown(w, r, talk.Fail(talk.Internal, "", nil).Sentence)
		}
		return p, false
	}
	h.metrics.refused.WithLabelValues("key").Inc()
	tooMany := h.Guard.Refuse(addr)
	h.Logger.WarnContext(r.Context(), "a key was refused", "channel", ChannelName, "cause", err, "address", addr,
		"too_many", tooMany)
	// The texts are those of the documentation ("错误处理") and of EyeClaw's controller.
	message := "Invalid authentication token"
	if errors.Is(err, account.ErrNoKey) {
		message = "Missing Authorization header"
	}
	switch {
	case tooMany:
		w.Header().Set("Retry-After", "60")
		writeJSON(w, http.StatusTooManyRequests,
			map[string]string{"error": "too many refused keys from this address; wait a minute"})
	case errors.Is(err, account.ErrPaused): // the person is told, not the platform
		h.answerUnknown(w, r, func(l i18n.Lang) string { return hub.MsgPaused.In(l) })
	case h.HTTPErrors:
		w.Header().Set("WWW-Authenticate", "Bearer")
		writeJSON(w, http.StatusUnauthorized, map[string]string{"error": message})
	default:
		newStream(w, "", "", 0).fail(message, false)
	}
	return p, false
}

// maxUnknownBody is the number of body bytes read if the key could not be checked, or its person is
// paused.
const maxUnknownBody = 64 << 10

// answerUnknown tells the wearer something although no key was accepted.
func (h *Handler) answerUnknown(w http.ResponseWriter, r *http.Request, sentence func(i18n.Lang) string) {
	c, _ := h.read(w, r, maxUnknownBody) //nolint:errcheck // the parsed part is enough
	newStream(w, c.MessageID, c.AgentID, 0).finish(sentence(c.request.lang(h.Lang)), nil)
}

// bearer returns the secret of the Authorization header, or "".
func bearer(r *http.Request) string {
	scheme, secret, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(secret)
}

// read reads and parses the body, of at most most bytes. Even with an error it returns a call with
// the fields that could be parsed.
func (h *Handler) read(w http.ResponseWriter, r *http.Request, most int64) (*call, error) {
	const readLimit = 30 * time.Second
	http.NewResponseController(w).SetReadDeadline(time.Now().Add(readLimit)) //nolint:errcheck // not every connection supports a deadline
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, most))
	if err != nil {
		c := &call{request: parsePrefix(body)}
		if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
			// A client that is still sending would not see an answer, so read more of the body
			// first.
			io.Copy(io.Discard, io.LimitReader(r.Body, 2*h.MaxImageBody)) //nolint:errcheck // discarded
			return c, errTooLarge
		}
		return c, fmt.Errorf("%w: %w", errIncompleteBody, err)
	}
	http.NewResponseController(w).SetReadDeadline(time.Time{}) //nolint:errcheck // as above
	req, err := parseRequest(body)
	c := &call{request: req}
	if err == nil && int64(len(body)) > h.MaxBody && !hasDataURI(req.Images) {
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

// refuse answers a request with an unusable body.
//
// ctx has often ended by then, because a failed read cancels it; refuse writes the answer anyway.
func (h *Handler) refuse(ctx context.Context, c *call, err error) {
	h.metrics.refused.WithLabelValues("body").Inc()
	h.Logger.WarnContext(ctx, "a request was refused", "channel", ChannelName, "cause", err, "key", c.principal.Key.ID)
	bad, isJSON := errors.AsType[*errJSON](err)
	switch {
	case errors.Is(err, errTooLarge): // most likely a photo of the wearer
		c.reply(msgBigImage.In(c.lang))
	case errors.Is(err, errTooLong):
		c.reply(msgTooLong.In(c.lang))
	case errors.Is(err, errIncompleteBody):
		c.reply(msgCutOff.In(c.lang))
	case isJSON:
		c.stream.fail(bad.Error(), false)
	case errors.Is(err, errMissing):
		c.stream.fail(msgMissing, c.MessageID != "" || c.AgentID != "")
	}
}

// dispatch routes a request to its bot or to the binding, or answers that there is no bot.
func (h *Handler) dispatch(ctx context.Context, c *call) {
	to, err := h.route(ctx, c)
	if err != nil {
		h.internalError(ctx, c, err)
		return
	}
	switch {
	case to.bot != nil:
		h.askBot(ctx, c, to)
	case to.bind:
		h.bind(ctx, c)
	default:
		h.metrics.refused.WithLabelValues("no_bot").Inc()
		h.Logger.WarnContext(ctx, "a request was refused", "channel", ChannelName, "cause", "no such bot",
			"agent_id", c.AgentID, "key", c.principal.Key.ID)
		c.stream.fail("Bot not found: "+c.AgentID, false)
	}
}

// internalError logs err and answers with an internal error, unless ctx has ended.
func (h *Handler) internalError(ctx context.Context, c *call, err error) {
	if ctx.Err() != nil {
		return
	}
	h.Logger.ErrorContext(ctx, "a turn failed", "channel", ChannelName, "error", err)
	c.stream.stopRecording() // a repeated request may succeed
	c.stream.finish(talk.Fail(talk.Internal, "", nil).Sentence(c.lang), nil)
}

// reply answers the wearer with a text of the handler.
func (c *call) reply(text string) { c.stream.finish(text, nil) }

// askBot sends the turn to the bot, with its pictures, and writes the answer.
func (h *Handler) askBot(ctx context.Context, c *call, to destination) {
	var s Settings
	if err := h.Hub.Registry.Settings(*to.bot, &s); err != nil {
		h.internalError(ctx, c, err)
		return
	}
	c.stream.start(s.QuietStart == nil && h.QuietStart || s.QuietStart != nil && *s.QuietStart)
	person := c.person()
	show := newDisplay(c, s)
	if !c.botAnswers && h.answerLocally(ctx, c, to, show) {
		return
	}
	c.handOverToBot()
	if c.Text == "" && len(c.Images) == 0 {
		c.reply(msgNotHeard.In(c.lang))
		return
	}
	turn := &talk.Turn{
		Bot: to.bot.Number, Channel: ChannelName, Person: person, Conversation: c.MessageID, Lang: c.lang,
		Address: c.address, Asker: to.asker,
		KeyRules: c.principal.Key.Rules, Commands: commands, Metadata: c.Metadata, AgentID: c.AgentID, UserID: c.UserID,
		Request: c.requestID,
	}
	if c.Text != "" {
		turn.Parts = append(turn.Parts, talk.Part{Text: c.Text})
	}
	for _, addr := range c.Images {
		im, say := h.loadImage(ctx, c, h.Photos, addr)
		if im == nil {
			c.reply(say)
			return
		}
		turn.Parts = append(turn.Parts, talk.Part{Image: im})
	}
	stopWaiting := h.waitingText(c, s)
	err := h.Hub.Answer(ctx, turn, show.onEvent)
	stopWaiting()
	h.finishAnswer(ctx, c, turn, show, err)
}

// answerLocally answers wearer commands and requests for the next page without the bot, and reports
// whether it has answered.
func (h *Handler) answerLocally(ctx context.Context, c *call, to destination, show *display) bool {
	if to.bound && h.wearerCommand(ctx, c, *to.bot) {
		return true
	}
	bot, person := to.bot.Number, c.person()
	rest := h.nextPage(ctx, c, bot, person)
	if rest == "" {
		return false
	}
	show.showRest(rest)
	h.endPage(ctx, c, bot, person, show)
	return true
}

// commands are the commands that glasses support.
var commands = []string{talk.CommandTakePhoto, talk.CommandNavigate, talk.CommandCalendar, talk.CommandLeave}

// person returns the hub's identifier for the wearer. A wearer without a user id gets a new
// identifier in each session.
func (c *call) person() string {
	if c.UserID == "" {
		return "lingzhu:" + c.principal.Person.ID + ":anonymous/" + c.MessageID
	}
	return "lingzhu:" + c.principal.Person.ID + ":" + c.UserID
}

// finishAnswer ends an answer, with a sentence about err if it is not nil.
func (h *Handler) finishAnswer(ctx context.Context, c *call, turn *talk.Turn, show *display, err error) {
	if errors.Is(err, talk.ErrDisconnected) {
		c.stream.stop()
		return
	}
	if err != nil {
		f := talk.AsFailure(err)
		switch {
		case f.Code == talk.TimedOut && show.hasAnswered():
			show.appendTrailer(talk.MsgCut.In(c.lang))
		case show.hasAnswered():
			show.appendTrailer("\n" + f.Sentence(c.lang))
		default:
			show.appendTrailer(f.Sentence(c.lang))
		}
	}
	h.endPage(ctx, c, turn.Bot, turn.Person, show)
}

// endPage finishes the stream and stores the rest of the answer for the next page. The rest is
// stored before the wearer is prompted to ask for it.
func (h *Handler) endPage(ctx context.Context, c *call, bot int64, person string, show *display) {
	last, rest := show.finish()
	if show.paginated {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), pageWriteTimeout)
		defer cancel()
		if err := h.Hub.Store.Conversations.SaveRemainder(ctx, bot, person, rest, time.Now()); err != nil {
			h.Logger.ErrorContext(ctx, "the rest of an answer was not kept", "error", err)
		}
	}
	c.stream.finish(last, show.suggest)
}

// waitingText sends the waiting text once if no text arrives within WaitingAfter. stop cancels it.
func (h *Handler) waitingText(c *call, s Settings) (stop func()) {
	text := h.WaitingText
	if s.WaitingText != nil {
		text = *s.WaitingText
	}
	if text == "" {
		return func() {}
	}
	t := time.AfterFunc(h.WaitingAfter, func() {
		if !c.stream.hasAnswered() {
			c.stream.text(text + "\n") //nolint:errcheck // the writes of the answer report it
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
	json.NewEncoder(w).Encode(v) //nolint:errcheck // the client has gone
}
