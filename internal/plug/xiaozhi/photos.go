package xiaozhi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"mime"
	"mime/multipart"
	"net/http"
	"net/netip"
	"os"
	"sort"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"

	"patchbay/internal/account"
	"patchbay/internal/i18n"
	"patchbay/internal/plug/xiaozhi/wire"
	"patchbay/internal/store"
	"patchbay/internal/talk"
)

// VisionPath is the path that boards upload photos to, below the server's address.
const VisionPath = "/xiaozhi/vision"

const (
	// maxPhotoBody limits the upload, and so the photo, in bytes. Photos of boards have 10 to 40
	// KB.
	maxPhotoBody = 5 << 20
	// maxPhotoQuestion limits the question about a photo, in bytes. It is a sentence of a model.
	maxPhotoQuestion = 4 << 10
	// maxPhotoParts limits the parts of the form, so that a body of millions of empty parts is not
	// read through. Boards send two (xiaozhi-esp32 main/boards/common/esp32_camera.cc,
	// Esp32Camera::Explain).
	maxPhotoParts = 8
	// maxBoundary is the maximum length of a boundary (RFC 2046 §5.1.1).
	maxBoundary = 70
	// maxPhotos limits the photos in memory, over all boards: some 400 MiB at the maximum size, and
	// 2.5 MB at the size that boards send.
	maxPhotos = 64
	// photosPerMinute is the default limit of photos per board and minute. Each costs a call of a
	// vision model.
	photosPerMinute = 20
	photoWindow     = time.Minute
	// describeTimeout limits the description of a photo: a bit less than the board waits, which
	// does nothing else meanwhile.
	describeTimeout = wire.VisionTimeout - 2*time.Second
	// responseTimeout is how long a board may take to read the response.
	responseTimeout = 10 * time.Second
)

// Messages for a board's model about photos that were not described.
const (
	msgPhotosMany        = i18n.Message("Too many photos in this minute. Please wait a moment before you take the next one.")
	msgPhotosFull        = i18n.Message("Too many photos are being looked at right now. Please take it again in a moment.")
	msgPhotoEmpty        = i18n.Message("The camera sent an empty photo. Please take it again.")
	msgPhotoNoJPEG       = i18n.Message("The camera did not send a JPEG photo but %s, which cannot be used.")
	msgPhotoQuestionLong = i18n.Message("The question about the photo is too long. Please keep it to %d bytes.")
)

// Photo is a photo that a board uploaded.
type Photo struct {
	Device store.Device
	// Session is the session that the vision token was made for.
	Session string
	// Question is the model's question about the photo; it may be empty.
	Question string
	// JPEG has a JPEG signature, but has not been decoded: it may be broken, or have too many
	// pixels. The callee owns it.
	JPEG []byte
}

// PhotosOptions configure Photos. Accounts, Logger and Describe are required.
type PhotosOptions struct {
	Accounts   *account.Service
	Logger     *slog.Logger
	Registerer prometheus.Registerer
	// Address returns a request's client address, also behind trusted proxies. Nil: the peer of the
	// connection.
	Address func(*http.Request) netip.Addr
	Guard   *account.Guard // counts refused tokens by address; nil: no limit

	// Describe returns the text that the board's model gets for a photo; it is cut to what a board
	// can read. It is called in the request's goroutine, for one photo of a board at a time. ctx
	// ends 28 s after the photo has arrived, or when the board disconnects. The model gets the
	// sentence of a *talk.Failure in the error's chain, or else that of talk.BotFailed.
	Describe func(ctx context.Context, p Photo) (answer string, err error)

	PerMinute int              // limit of photos per board; 0: 20
	Lang      i18n.Lang        // for boards that report no language; empty: English
	Now       func() time.Time // nil: time.Now
}

// Photos receives the photos of boards and answers with their descriptions. It is safe for
// concurrent use.
//
// A board passes the body of the response to its model unchanged, but only with the status 200
// (xiaozhi-esp32 main/boards/common/esp32_camera.cc, Esp32Camera::Explain). So every message for a
// person has that status, and is sent after the whole photo was read, since a board that still
// sends reads nothing. Other statuses are for clients that are not an approved board.
type Photos struct {
	PhotosOptions
	slots    chan struct{} // holds a token for each photo in memory
	outcomes *prometheus.CounterVec
	// time to receive a photo, and for Describe
	readTimeout, describeTimeout time.Duration

	mu        sync.Mutex
	quotas    map[int64]*photoQuota // by the board's number; only of authenticated boards
	lastSweep time.Time
}

// photoQuota counts the photos of one board in a window of photoWindow.
type photoQuota struct {
	busy  bool // a photo is being processed
	since time.Time
	count int // photos in the window
}

// NewPhotos makes Photos.
func NewPhotos(o PhotosOptions) *Photos {
	if o.PerMinute == 0 {
		o.PerMinute = photosPerMinute
	}
	if o.Lang == "" {
		o.Lang = i18n.English
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Address == nil {
		o.Address = remoteAddress
	}
	p := &Photos{
		PhotosOptions: o, slots: make(chan struct{}, maxPhotos), quotas: map[int64]*photoQuota{},
		readTimeout: readTimeout, describeTimeout: describeTimeout,
		outcomes: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "patchbay_xiaozhi_photos_total",
			Help: "Photos of voice boards, by what became of them."}, []string{"outcome"}),
	}
	if o.Registerer != nil {
		o.Registerer.MustRegister(p.outcomes)
	}
	return p
}

// ServeHTTP receives a photo: a form with the parts question and file.
func (p *Photos) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	// A board uses one connection per photo anyway, and with this header the server does not wait
	// for the rest of a refused body.
	w.Header().Set("Connection", "close")
	limits, now := http.NewResponseController(w), time.Now()
	_ = limits.SetReadDeadline(now.Add(p.readTimeout)) // not always supported
	_ = limits.SetWriteDeadline(now.Add(p.readTimeout + p.describeTimeout + responseTimeout))
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		p.refuse(w, r, "method", http.StatusMethodNotAllowed, "boards post photos here")
		return
	}
	device, session, ok := p.authenticate(w, r)
	if !ok {
		return
	}
	// Boards take one photo at a time, so a second one comes from a stolen token, or from a board
	// that has given the first up. One board cannot use all slots.
	free, within := p.acquireBoard(device.Number)
	if !free {
		p.refuse(w, r, "busy", http.StatusTooManyRequests, "another photo of this board is being looked at")
		return
	}
	defer p.releaseBoard(device.Number)
	lang := i18n.ParseLang(device.Language, p.Lang)
	switch {
	case !within:
		p.decline(w, r, "too_many", msgPhotosMany.In(lang))
	case !p.acquireSlot():
		p.decline(w, r, "full", msgPhotosFull.In(lang))
	default:
		defer p.releaseSlot()
		p.receive(w, r, Photo{Device: device, Session: session}, lang)
	}
}

// authenticate returns the board of a request and the session of its vision token, or refuses the
// request. It does not read the body.
func (p *Photos) authenticate(w http.ResponseWriter, r *http.Request) (d store.Device, session string, ok bool) {
	id, ok := DeviceFromRequest(r)
	if !ok {
		p.refuse(w, r, "nobody", http.StatusBadRequest,
			"the headers Device-Id (a MAC address) and Client-Id (a UUID) say who calls, and one is missing or wrong")
		return d, "", false
	}
	d, session, err := p.Accounts.CheckVision(r.Context(), id, bearerToken(r))
	switch {
	case err == nil:
		return d, session, true
	case account.Refused(err):
		addr := p.Address(r)
		tooMany := p.Guard != nil && p.Guard.Refuse(addr)
		p.Logger.WarnContext(r.Context(), "a board's photo was refused", "board", id.Hardware, "cause", err,
			"address", addr, "too_many", tooMany)
		if tooMany {
			p.refuse(w, r, "token", http.StatusTooManyRequests,
				"too many refused tokens from this address; wait a minute")
			return d, "", false
		}
		w.Header().Set("WWW-Authenticate", "Bearer")
		p.refuse(w, r, "token", http.StatusUnauthorized, "the token is wrong, or has expired")
	case r.Context().Err() != nil:
		p.count("gone")
	default:
		p.Logger.ErrorContext(r.Context(), "the token of a board's photo could not be checked", "board", id.Hardware,
			"error", err)
		p.refuse(w, r, "failed", http.StatusServiceUnavailable, "the token could not be checked; try again later")
	}
	return d, "", false
}

// bearerToken returns the token of the Authorization header, or "".
func bearerToken(r *http.Request) string {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}

// acquireBoard counts a photo of a board. free reports whether the board has no other photo in
// progress, and within whether it is below its limit. If free, the caller calls releaseBoard.
func (p *Photos) acquireBoard(board int64) (free, within bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.Now()
	if now.Sub(p.lastSweep) >= photoWindow {
		p.lastSweep = now
		for number, s := range p.quotas {
			if !s.busy && now.Sub(s.since) >= photoWindow {
				delete(p.quotas, number)
			}
		}
	}
	s := p.quotas[board]
	if s == nil {
		s = &photoQuota{since: now}
		p.quotas[board] = s
	}
	if s.busy {
		return false, false
	}
	if now.Sub(s.since) >= photoWindow {
		s.since, s.count = now, 0
	}
	s.busy = true
	s.count++
	return true, s.count <= p.PerMinute
}

func (p *Photos) releaseBoard(board int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.quotas[board].busy = false
}

// acquireSlot reports whether there is room for a photo. It does not wait: the answer would reach
// the board too late.
func (p *Photos) acquireSlot() bool {
	select {
	case p.slots <- struct{}{}:
		return true
	default:
		return false
	}
}

func (p *Photos) releaseSlot() { <-p.slots }

// decline reads a photo without storing it, and answers with the reason.
func (p *Photos) decline(w http.ResponseWriter, r *http.Request, outcome, why string) {
	if _, err := io.Copy(io.Discard, http.MaxBytesReader(w, r.Body, maxPhotoBody)); err != nil {
		p.refuseBody(w, r, err)
		return
	}
	p.respond(w, r, outcome, false, why)
}

// receive reads a photo and has it described.
func (p *Photos) receive(w http.ResponseWriter, r *http.Request, photo Photo, lang i18n.Lang) {
	f, err := readPhotoForm(r.Header.Get("Content-Type"), http.MaxBytesReader(w, r.Body, maxPhotoBody))
	if err != nil {
		p.refuseBody(w, r, err)
		return
	}
	kind := http.DetectContentType(f.file)
	switch {
	case len(f.file) == 0:
		p.respond(w, r, "empty", false, msgPhotoEmpty.In(lang))
	case kind != "image/jpeg":
		p.respond(w, r, "no_jpeg", false, msgPhotoNoJPEG.In(lang, kind))
	case len(f.question) > maxPhotoQuestion:
		p.respond(w, r, "question", false, msgPhotoQuestionLong.In(lang, maxPhotoQuestion))
	default:
		photo.Question, photo.JPEG = strings.ToValidUTF8(f.question, ""), f.file
		p.describe(w, r, photo, lang)
	}
}

// describe calls Describe and answers with the result.
func (p *Photos) describe(w http.ResponseWriter, r *http.Request, photo Photo, lang i18n.Lang) {
	size, began := len(photo.JPEG), time.Now()
	ctx, cancel := context.WithTimeout(r.Context(), p.describeTimeout)
	defer cancel()
	answer, err := p.Describe(ctx, photo)
	outcome := "answered"
	switch {
	case r.Context().Err() != nil:
		p.count("gone")
		p.Logger.DebugContext(r.Context(), "a board did not wait for what is seen in its photo",
			"device", photo.Device.Number, "took", time.Since(began))
		return
	case err != nil && ctx.Err() != nil:
		outcome, err = "timeout", talk.Fail(talk.TimedOut, "", err)
	case err != nil:
		outcome = "failed"
	case strings.TrimSpace(strings.ToValidUTF8(answer, "")) == "":
		outcome, err = "silent", talk.Fail(talk.NoAnswer, "", nil)
	}
	about := []any{"device", photo.Device.Number, "bytes", size, "took", time.Since(began)}
	if err != nil {
		p.Logger.WarnContext(r.Context(), "a board's photo was not answered", append(about, "error", err)...)
		p.respond(w, r, outcome, false, talk.AsFailure(err).Sentence(lang))
		return
	}
	p.Logger.DebugContext(r.Context(), "a board's photo was answered", about...)
	p.respond(w, r, outcome, true, answer)
}

func (p *Photos) count(outcome string) { p.outcomes.WithLabelValues(outcome).Inc() }

// respond answers with status 200 and a text for the board's model.
func (p *Photos) respond(w http.ResponseWriter, r *http.Request, outcome string, success bool, text string) {
	if !success {
		p.Logger.DebugContext(r.Context(), "a board is told why its photo is of no use", "cause", outcome,
			"address", p.Address(r))
	}
	p.count(outcome)
	writeAnswer(w, http.StatusOK, photoAnswer(success, text))
}

// refuseBody refuses a body that could not be read.
func (p *Photos) refuseBody(w http.ResponseWriter, r *http.Request, err error) {
	_, large := errors.AsType[*http.MaxBytesError](err)
	switch {
	case large:
		p.refuse(w, r, "too_large", http.StatusRequestEntityTooLarge, "the photo is too large")
	case errors.Is(err, os.ErrDeadlineExceeded):
		p.refuse(w, r, "slow", http.StatusRequestTimeout, "the photo did not come in time")
	default:
		p.refuse(w, r, "unreadable", http.StatusBadRequest,
			"a photo is multipart/form-data with the parts question and file, and this could not be read as such")
	}
}

// refuse answers with an error status, at which a board reports that the upload failed.
func (p *Photos) refuse(w http.ResponseWriter, r *http.Request, outcome string, status int, message string) {
	p.count(outcome)
	if status == http.StatusTooManyRequests {
		w.Header().Set("Retry-After", "60")
	}
	p.Logger.DebugContext(r.Context(), "a request with a photo was refused", "cause", outcome, "address", p.Address(r))
	http.Error(w, message, status)
}

// photoForm is the form that a board uploads.
type photoForm struct {
	question string // at most one byte above maxPhotoQuestion
	file     []byte // not nil
}

var errNoPhotoForm = errors.New("this is no form with a file")

// readPhotoForm reads a form and the body to its end: only then is a disconnected board noticed. It
// takes the first file, whatever its name, and the first question. If reading the body failed, it
// returns that error.
func readPhotoForm(contentType string, body io.Reader) (photoForm, error) {
	kind, param, err := mime.ParseMediaType(contentType)
	boundary := param["boundary"]
	if err != nil || kind != "multipart/form-data" || boundary == "" || len(boundary) > maxBoundary {
		return photoForm{}, errNoPhotoForm
	}
	source := &errReader{Reader: body}
	f, err := readPhotoParts(multipart.NewReader(source, boundary))
	if err == nil {
		_, err = io.Copy(io.Discard, source)
	}
	if source.err != nil {
		err = source.err // package multipart hides some errors
	}
	return f, err
}

// errReader keeps the error of a reader.
type errReader struct {
	io.Reader
	err error
}

func (f *errReader) Read(p []byte) (int, error) {
	n, err := f.Reader.Read(p)
	if err != nil && err != io.EOF {
		f.err = err
	}
	return n, err
}

func readPhotoParts(parts *multipart.Reader) (f photoForm, err error) {
	asked := false
	for range maxPhotoParts + 1 {
		part, err := parts.NextRawPart()
		if err == io.EOF && f.file != nil {
			return f, nil
		}
		if err != nil {
			return f, err
		}
		name := part.FormName()
		switch {
		case f.file == nil && (name == "file" || part.FileName() != ""):
			f.file, err = io.ReadAll(part)
		case !asked && name == "question":
			var text []byte
			text, err = io.ReadAll(io.LimitReader(part, maxPhotoQuestion+1))
			f.question, asked = string(text), true
		}
		if err != nil {
			return f, err
		}
	}
	return f, errNoPhotoForm
}

// photoAnswer returns the JSON for a board's model. It cuts the text so that the JSON has fewer
// than wire.MaxHTTPBody bytes, at which boards hang.
func photoAnswer(success bool, text string) []byte {
	text = strings.ToValidUTF8(text, "")
	// The JSON is never shorter than the text.
	if len(text) < wire.MaxHTTPBody {
		if b := marshalPhotoAnswer(success, text); len(b) < wire.MaxHTTPBody {
			return b
		}
	}
	text = cutRunes(text, wire.MaxHTTPBody)
	n := sort.Search(len(text), func(n int) bool {
		return len(marshalPhotoAnswer(success, cutRunes(text, n+1)+"…")) >= wire.MaxHTTPBody
	})
	return marshalPhotoAnswer(success, cutRunes(text, n)+"…")
}

// cutRunes cuts a string to at most n bytes, at the start of a rune.
func cutRunes(s string, n int) string {
	if n >= len(s) {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

func marshalPhotoAnswer(success bool, text string) []byte {
	answer := struct {
		Success bool   `json:"success"`
		Text    string `json:"text,omitempty"`
		Message string `json:"message,omitempty"`
	}{Success: success}
	if success {
		answer.Text = text
	} else {
		answer.Message = text
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false) // saves room; the reader is a model
	if err := e.Encode(answer); err != nil {
		panic(err) // booleans and strings
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}
