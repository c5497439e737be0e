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
	"patchbay/internal/plug/xiaozhi/wire"
	"patchbay/internal/store"
	"patchbay/internal/talk"
)

// VisionPath is where boards send photos, below the server's address.
const VisionPath = "/xiaozhi/vision"

const (
	// maxPhotoBody bounds what a photo comes in, in bytes, and so the photo. Those of
	// boards have 10 to 40 KB.
	maxPhotoBody = 5 << 20
	// maxPhotoQuestion bounds what is asked about a photo, in bytes. It is a sentence
	// of a model.
	maxPhotoQuestion = 4 << 10
	// maxPhotoParts bounds the parts of a body, so that millions of empty ones are
	// not looked through. Boards send two.
	maxPhotoParts = 8
	// maxBoundary is how long a boundary may be, by RFC 2046.
	maxBoundary = 70
	// maxPhotos is how many photos are held at a time, over all boards: some 400
	// MiB if everybody sends the most, and 2.5 MB if they are boards.
	maxPhotos = 64
	// photosPerMinute is how many photos of a board are looked at, unless the options
	// say otherwise. Each costs a call of a model that sees.
	photosPerMinute = 20
	photoWindow     = time.Minute
	// lookLimit is how long may be looked at a photo that has come: a bit less than
	// the board waits, which does nothing else meanwhile.
	lookLimit = wire.VisionTimeout - 2*time.Second
	// tellLimit is how long a board may take to read the answer.
	tellLimit = 10 * time.Second
)

// What a board's model is told about photos that nobody looks at.
var (
	sayPhotosMany        = talk.Say{Zh: "这一分钟拍的照片太多了，请稍等片刻再拍。", En: "Too many photos in this minute. Please wait a moment before you take the next one."}
	sayPhotosFull        = talk.Say{Zh: "现在要看的照片太多了，请稍后再拍一次。", En: "Too many photos are being looked at right now. Please take it again in a moment."}
	sayPhotoEmpty        = talk.Say{Zh: "摄像头发来的照片是空的，请再拍一次。", En: "The camera sent an empty photo. Please take it again."}
	sayPhotoNoJPEG       = talk.Say{Zh: "摄像头发来的不是 JPEG 照片，而是 %s，无法识别。", En: "The camera did not send a JPEG photo but %s, which cannot be used."}
	sayPhotoQuestionLong = talk.Say{Zh: "关于照片的问题太长了，请缩短到 %d 字节以内。", En: "The question about the photo is too long. Please keep it to %d bytes."}
)

// Photo is what a board's camera has seen.
type Photo struct {
	Device store.Device
	// Session is the one that the board's token was made for.
	Session string
	// Question is what the board's model wants to know; it may be empty.
	Question string
	// JPEG begins as a JPEG file does. Nobody has unpacked it: it may be broken, or
	// have too many pixels. It belongs to whom it is handed to.
	JPEG []byte
}

// PhotosOptions make Photos. Accounts, Logger, Registerer and Taken are required.
type PhotosOptions struct {
	Accounts   *account.Service
	Logger     *slog.Logger
	Registerer prometheus.Registerer
	// Address finds a request's client, behind trusted proxies too. Nil: the other
	// end of the connection.
	Address func(*http.Request) netip.Addr
	Guard   *account.Guard // counts refused tokens by address; nil: nobody does

	// Taken looks at a photo and says what the board's model is told; what is longer
	// than a board can read is cut. It is called in the request's goroutine, for one
	// photo of a board at a time, and returns when ctx ends, which it does 28 s after
	// the photo has come, and when the board leaves. An error that is, or wraps, a
	// *talk.Failure is told in its sentence, any other as talk.BotFailed.
	Taken func(ctx context.Context, p Photo) (answer string, err error)

	PerMinute int              // photos of one board; 0: 20
	Lang      talk.Lang        // for boards that tell none; empty: English
	Now       func() time.Time // nil: time.Now
}

// Photos takes the photos of boards, and answers what is seen in them. It is safe
// for concurrent use.
//
// A board hands the body of the answer to its model as it is, but only with the
// status 200. So what a person can be told comes with that, in words, and after the
// whole photo, as a board that still sends reads nothing. Any other status is for
// callers that are no board of ours.
type Photos struct {
	PhotosOptions
	room    chan struct{} // a token for each photo that is held
	counted *prometheus.CounterVec
	// How long a board may take to send a photo, and Taken to look at it.
	reading, looking time.Duration

	mu    sync.Mutex
	seats map[int64]*photoSeat // by the board's number; each has shown a token
	swept time.Time
}

// photoSeat is one board's, from a photo until a minute later.
type photoSeat struct {
	taken bool // a photo is being looked at
	since time.Time
	n     int // photos since then
}

// NewPhotos makes Photos.
func NewPhotos(o PhotosOptions) *Photos {
	if o.PerMinute == 0 {
		o.PerMinute = photosPerMinute
	}
	if o.Lang == "" {
		o.Lang = talk.English
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Address == nil {
		o.Address = remoteAddress
	}
	p := &Photos{
		PhotosOptions: o, room: make(chan struct{}, maxPhotos), seats: map[int64]*photoSeat{}, reading: readLimit, looking: lookLimit,
		counted: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "patchbay_xiaozhi_photos_total", Help: "Photos of voice boards, by what became of them."}, []string{"outcome"}),
	}
	if o.Registerer != nil {
		o.Registerer.MustRegister(p.counted)
	}
	return p
}

// ServeHTTP takes a photo: a form with the parts question and file.
func (p *Photos) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	// A board has a connection for each photo anyway, and a caller that is refused is
	// not to have the rest of its body waited for.
	w.Header().Set("Connection", "close")
	limits, now := http.NewResponseController(w), time.Now()
	_ = limits.SetReadDeadline(now.Add(p.reading)) // not every connection has one
	_ = limits.SetWriteDeadline(now.Add(p.reading + p.looking + tellLimit))
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		p.refuse(w, r, "method", http.StatusMethodNotAllowed, "boards post photos here")
		return
	}
	device, session, ok := p.authenticate(w, r)
	if !ok {
		return
	}
	// Boards take one photo at a time, so that a second one comes from a stolen token
	// or from a board that has given up the first. It cannot fill the room alone.
	free, within := p.sit(device.Number)
	if !free {
		p.refuse(w, r, "busy", http.StatusTooManyRequests, "another photo of this board is being looked at")
		return
	}
	defer p.rise(device.Number)
	lang := talk.ParseLang(device.Language, p.Lang)
	switch {
	case !within:
		p.decline(w, r, "too_many", sayPhotosMany.In(lang))
	case !p.enter():
		p.decline(w, r, "full", sayPhotosFull.In(lang))
	default:
		defer p.leave()
		p.take(w, r, Photo{Device: device, Session: session}, lang)
	}
}

// authenticate finds out which board it is, and for which session its token was
// made, or refuses it. It does not touch the body.
func (p *Photos) authenticate(w http.ResponseWriter, r *http.Request) (d store.Device, session string, ok bool) {
	id, ok := Who(r)
	if !ok {
		p.refuse(w, r, "nobody", http.StatusBadRequest, "the headers Device-Id (a MAC address) and Client-Id (a UUID) say who calls, and one is missing or wrong")
		return d, "", false
	}
	d, session, err := p.Accounts.CheckVision(r.Context(), id, bearerToken(r))
	switch {
	case err == nil:
		return d, session, true
	case account.Refused(err):
		addr := p.Address(r)
		tooMany := p.Guard != nil && p.Guard.Refuse(addr)
		p.Logger.WarnContext(r.Context(), "a board's photo was refused", "board", id.Hardware, "cause", err, "address", addr, "too_many", tooMany)
		if tooMany {
			p.refuse(w, r, "token", http.StatusTooManyRequests, "too many refused tokens from this address; wait a minute")
			return d, "", false
		}
		w.Header().Set("WWW-Authenticate", "Bearer")
		p.refuse(w, r, "token", http.StatusUnauthorized, "the token is wrong, or has expired")
	case r.Context().Err() != nil:
		p.count("gone")
	default:
		p.Logger.ErrorContext(r.Context(), "the token of a board's photo could not be checked", "board", id.Hardware, "error", err)
		p.refuse(w, r, "failed", http.StatusServiceUnavailable, "the token could not be checked; try again later")
	}
	return d, "", false
}

// bearerToken is the secret of the Authorization header, or "".
func bearerToken(r *http.Request) string {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}

// sit counts a photo of a board. It says whether the board has no other, and then
// whether it may have this one; then the seat is the board's until it rises.
func (p *Photos) sit(board int64) (free, within bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.Now()
	if now.Sub(p.swept) >= photoWindow {
		p.swept = now
		for number, s := range p.seats {
			if !s.taken && now.Sub(s.since) >= photoWindow {
				delete(p.seats, number)
			}
		}
	}
	s := p.seats[board]
	if s == nil {
		s = &photoSeat{since: now}
		p.seats[board] = s
	}
	if s.taken {
		return false, false
	}
	if now.Sub(s.since) >= photoWindow {
		s.since, s.n = now, 0
	}
	s.taken = true
	s.n++
	return true, s.n <= p.PerMinute
}

func (p *Photos) rise(board int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seats[board].taken = false
}

// enter takes room for a photo, if there is any: boards that wait for it would be
// answered too late.
func (p *Photos) enter() bool {
	select {
	case p.room <- struct{}{}:
		return true
	default:
		return false
	}
}

func (p *Photos) leave() { <-p.room }

// decline lets a photo come without keeping it, and tells why.
func (p *Photos) decline(w http.ResponseWriter, r *http.Request, outcome, why string) {
	if _, err := io.Copy(io.Discard, http.MaxBytesReader(w, r.Body, maxPhotoBody)); err != nil {
		p.broken(w, r, err)
		return
	}
	p.tell(w, r, outcome, false, why)
}

// take reads a photo and has it looked at.
func (p *Photos) take(w http.ResponseWriter, r *http.Request, photo Photo, lang talk.Lang) {
	f, err := readPhotoForm(r.Header.Get("Content-Type"), http.MaxBytesReader(w, r.Body, maxPhotoBody))
	if err != nil {
		p.broken(w, r, err)
		return
	}
	kind := http.DetectContentType(f.file)
	switch {
	case len(f.file) == 0:
		p.tell(w, r, "empty", false, sayPhotoEmpty.In(lang))
	case kind != "image/jpeg":
		p.tell(w, r, "no_jpeg", false, sayPhotoNoJPEG.In(lang, kind))
	case len(f.question) > maxPhotoQuestion:
		p.tell(w, r, "question", false, sayPhotoQuestionLong.In(lang, maxPhotoQuestion))
	default:
		photo.Question, photo.JPEG = strings.ToValidUTF8(f.question, ""), f.file
		p.look(w, r, photo, lang)
	}
}

// look has a photo looked at, and tells the board what is seen.
func (p *Photos) look(w http.ResponseWriter, r *http.Request, photo Photo, lang talk.Lang) {
	size, began := len(photo.JPEG), time.Now()
	ctx, cancel := context.WithTimeout(r.Context(), p.looking)
	defer cancel()
	answer, err := p.Taken(ctx, photo)
	outcome := "answered"
	switch {
	case r.Context().Err() != nil:
		p.count("gone")
		p.Logger.DebugContext(r.Context(), "a board did not wait for what is seen in its photo", "device", photo.Device.Number, "took", time.Since(began))
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
		p.tell(w, r, outcome, false, talk.AsFailure(err).Sentence(lang))
		return
	}
	p.Logger.DebugContext(r.Context(), "a board's photo was answered", about...)
	p.tell(w, r, outcome, true, answer)
}

func (p *Photos) count(outcome string) { p.counted.WithLabelValues(outcome).Inc() }

// tell answers in words.
func (p *Photos) tell(w http.ResponseWriter, r *http.Request, outcome string, success bool, text string) {
	if !success {
		p.Logger.DebugContext(r.Context(), "a board is told why its photo is of no use", "cause", outcome, "address", p.Address(r))
	}
	p.count(outcome)
	writeAnswer(w, http.StatusOK, photoAnswer(success, text))
}

// broken refuses a body that could not be read.
func (p *Photos) broken(w http.ResponseWriter, r *http.Request, err error) {
	_, large := errors.AsType[*http.MaxBytesError](err)
	switch {
	case large:
		p.refuse(w, r, "too_large", http.StatusRequestEntityTooLarge, "the photo is too large")
	case errors.Is(err, os.ErrDeadlineExceeded):
		p.refuse(w, r, "slow", http.StatusRequestTimeout, "the photo did not come in time")
	default:
		p.refuse(w, r, "unreadable", http.StatusBadRequest, "a photo is multipart/form-data with the parts question and file, and this could not be read as such")
	}
}

// refuse answers with a status, after which a board says that it could not upload.
func (p *Photos) refuse(w http.ResponseWriter, r *http.Request, outcome string, status int, message string) {
	p.count(outcome)
	if status == http.StatusTooManyRequests {
		w.Header().Set("Retry-After", "60")
	}
	p.Logger.DebugContext(r.Context(), "a request with a photo was refused", "cause", outcome, "address", p.Address(r))
	http.Error(w, message, status)
}

// photoForm is what a board posts.
type photoForm struct {
	question string // at most a byte longer than it may be
	file     []byte // not nil
}

var errNoPhotoForm = errors.New("this is no form with a file")

// readPhotoForm reads a form to its end, and the body too: only then it is noticed
// that a board leaves. The first file counts, whatever it is called, and the first
// question. If the body could not be read, the error is the body's.
func readPhotoForm(contentType string, body io.Reader) (photoForm, error) {
	kind, param, err := mime.ParseMediaType(contentType)
	boundary := param["boundary"]
	if err != nil || kind != "multipart/form-data" || boundary == "" || len(boundary) > maxBoundary {
		return photoForm{}, errNoPhotoForm
	}
	source := &failing{Reader: body}
	f, err := readPhotoParts(multipart.NewReader(source, boundary))
	if err == nil {
		_, err = io.Copy(io.Discard, source)
	}
	if source.err != nil {
		err = source.err // package multipart loses some
	}
	return f, err
}

// failing remembers why a reader failed.
type failing struct {
	io.Reader
	err error
}

func (f *failing) Read(p []byte) (int, error) {
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

// photoAnswer is a text as a board's model gets it. It has fewer bytes than a board
// hangs at: what does not fit is cut.
func photoAnswer(success bool, text string) []byte {
	text = strings.ToValidUTF8(text, "")
	// JSON has as many bytes as the text, or more.
	if len(text) < wire.MaxAnswer {
		if b := marshalPhotoAnswer(success, text); len(b) < wire.MaxAnswer {
			return b
		}
	}
	text = cutRunes(text, wire.MaxAnswer)
	n := sort.Search(len(text), func(n int) bool {
		return len(marshalPhotoAnswer(success, cutRunes(text, n+1)+"…")) >= wire.MaxAnswer
	})
	return marshalPhotoAnswer(success, cutRunes(text, n)+"…")
}

// cutRunes cuts a text to n bytes, or some fewer so that no rune breaks.
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
	e.SetEscapeHTML(false) // a model reads it, and there is no room to waste
	if err := e.Encode(answer); err != nil {
		panic(err) // a word and a text
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}
