// Package edge is an engine that speaks with the voices of Microsoft's browser. The interface is
// private: Microsoft licenses it to nobody else and refuses programs at will, so nothing uses it
// unless its owner adds the engine. The protocol is that of rany2/edge-tts 7.2.7
// (src/edge_tts/{communicate,constants,drm}.py).
package edge

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"

	"patchbay/internal/voice/engine"
	"patchbay/internal/voice/engines/socket"
)

// Constants of the browser (rany2/edge-tts src/edge_tts/constants.py).
const (
	scheme        = "edge+"
	microsoftHost = "speech.platform.bing.com"
	microsoft     = "wss://" + microsoftHost + "/consumer/speech/synthesize/readaloud/edge/v1"
	clientToken   = "6A5AA1D4EAFF4E9FB37E23D68491D6F4"
	version       = "143.0.3650.75"
	origin        = "chrome-extension://jdiccldimpdaibmpdkjnbmckianbfold"
	userAgent     = "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) " +
		"Chrome/143.0.0.0 Safari/537.36 Edg/143.0.0.0"
	outputFormat = "audio-24khz-48kbitrate-mono-mp3"
)

const (
	// maxText limits a request, in bytes of escaped text (communicate.py,
	// split_text_by_byte_length).
	maxText = 4096
	// connectTimeout limits a connection, and messageTimeout the wait for each message.
	connectTimeout, messageTimeout = 3 * time.Second, 5 * time.Second
)

// Voices of languages, if no voice is chosen. The multilingual voice speaks the language of the
// text.
const (
	chineseVoice      = "zh-CN-XiaoxiaoNeural"
	multilingualVoice = "en-US-EmmaMultilingualNeural"
)

// client sends the requests of an engine.
type client struct {
	settings Settings
	options  engine.Options
	timeout  time.Duration // messageTimeout
	now      func() time.Time
	skew     atomic.Int64 // how much the clock of the service is ahead of ours, in nanoseconds
}

// New returns an engine that speaks. It does not connect. The error is that of [Settings.Validate].
func New(s Settings, o engine.Options) (engine.Engine, error) {
	if err := s.Validate(); err != nil {
		return engine.Engine{}, err
	}
	return engine.Engine{Speaker: engine.SpeakOnce(newClient(s, o).speak)}, nil
}

func newClient(s Settings, o engine.Options) *client {
	return &client{settings: s, options: o.WithDefaults(), timeout: messageTimeout, now: time.Now}
}

// speak requests the sound of a sentence over a connection of its own, as the browser does.
func (c *client) speak(ctx context.Context, text string, m engine.Manner) (engine.Clip, error) {
	ws, err := c.connect(ctx)
	if errors.Is(err, errClock) {
		ws, err = c.connect(ctx)
	}
	if err != nil {
		return engine.Clip{}, err
	}
	s := &sound{ctx: ctx, ws: ws, timeout: c.timeout}
	if err = s.request(c.voice(m), c.speed(m), text); err == nil {
		err = s.next() // the first sound
	}
	if err == nil && s.err == io.EOF {
		err = engine.Errorf(engine.Broken, "no sound came: the service refuses the voice, the text or this network")
	}
	if err != nil {
		_ = s.Close() // the first error counts
		return engine.Clip{}, err
	}
	return engine.Clip{Format: engine.MP3, Sound: s}, nil
}

func (c *client) voice(m engine.Manner) string {
	switch {
	case voiceName.MatchString(m.Voice): // and not that of another engine
		return m.Voice
	case c.settings.Voice != "":
		return c.settings.Voice
	case m.Language == "zh" || strings.HasPrefix(m.Language, "zh-"):
		return chineseVoice
	}
	return multilingualVoice
}

// speed returns the rate as the service wants it, such as +25%.
func (c *client) speed(m engine.Manner) string {
	speed := m.Speed
	if speed == 0 {
		speed = c.settings.Speed
	}
	if speed == 0 {
		speed = 1
	}
	return fmt.Sprintf("%+d%%", int(math.Round(100*(min(max(speed, 0.5), 2)-1))))
}

// errClock is the error of a refusal after which the clock was corrected.
var errClock = errors.New("the clock was corrected")

// connect opens a connection. The service refuses tokens of another time than its own.
func (c *client) connect(ctx context.Context) (*websocket.Conn, error) {
	u, err := url.Parse(c.settings.address())
	if err != nil {
		return nil, err
	}
	now := c.now().Add(time.Duration(c.skew.Load()))
	q := url.Values{"TrustedClientToken": {clientToken}, "ConnectionId": {randomHex()},
		"Sec-MS-GEC": {token(now)}, "Sec-MS-GEC-Version": {"1-" + version}}
	u.RawQuery = q.Encode()
	server := socket.Server{URL: u, Dial: c.options.Dial, Timeout: connectTimeout, Header: http.Header{
		"Origin": {origin}, "User-Agent": {userAgent}, "Cookie": {"muid=" + strings.ToUpper(randomHex()) + ";"}}}
	ws, err := server.Connect(ctx)
	if e, ok := errors.AsType[*socket.StatusError](err); ok && e.Status == http.StatusForbidden {
		date, parseErr := http.ParseTime(e.Header.Get("Date"))
		if parseErr == nil && token(date) != token(now) {
			c.skew.Store(int64(date.Sub(c.now())))
			return nil, errClock
		}
	}
	if err != nil && ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return ws, err
}

func randomHex() string {
	b := make([]byte, 16)
	_, _ = rand.Read(b) // never fails
	return hex.EncodeToString(b)
}

// token returns the value of Sec-MS-GEC at a time: ticks of 100 ns since 1601, rounded down to five
// minutes, and the token of the browser, hashed (drm.py, generate_sec_ms_gec).
func token(at time.Time) string {
	seconds := at.Unix() + 11644473600
	seconds -= seconds % 300
	sum := sha256.Sum256([]byte(strconv.FormatInt(seconds*1e7, 10) + clientToken))
	return strings.ToUpper(hex.EncodeToString(sum[:]))
}

// sound is the sound of a sentence.
type sound struct {
	ctx     context.Context
	ws      *websocket.Conn
	timeout time.Duration
	rest    []byte
	err     error // after rest
}

// request sends the format and the text (communicate.py, __stream).
func (s *sound) request(voice, rate, text string) error {
	at := time.Now().UTC().Format("Mon Jan 02 2006 15:04:05 GMT+0000 (Coordinated Universal Time)")
	config := "X-Timestamp:" + at + "\r\nContent-Type:application/json; charset=utf-8\r\nPath:speech.config\r\n\r\n" +
		`{"context":{"synthesis":{"audio":{"metadataoptions":{"sentenceBoundaryEnabled":"false",` +
		`"wordBoundaryEnabled":"false"},"outputFormat":"` + outputFormat + `"}}}}`
	ssml := "X-RequestId:" + randomHex() + "\r\nContent-Type:application/ssml+xml\r\nX-Timestamp:" + at +
		"Z\r\nPath:ssml\r\n\r\n<speak version='1.0' xmlns='http://www.w3.org/2001/10/synthesis' xml:lang='en-US'>" +
		"<voice name='" + voice + "'><prosody pitch='+0Hz' rate='" + rate + "' volume='+0%'>" + escape(text) +
		"</prosody></voice></speak>"
	ctx, cancel := context.WithTimeout(s.ctx, s.timeout)
	defer cancel()
	for _, message := range []string{config, ssml} {
		if err := s.ws.Write(ctx, websocket.MessageText, []byte(message)); err != nil {
			return s.failure(err)
		}
	}
	return nil
}

// escape escapes as much of a text as a request may have. Control characters, which the service
// refuses, are spaces.
func escape(text string) string {
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, ""))
	for {
		var b strings.Builder
		_ = xml.EscapeText(&b, []byte(text)) // into memory
		if b.Len() <= maxText {
			return b.String()
		}
		text = strings.ToValidUTF8(text[:len(text)*maxText/(b.Len()+1)], "")
	}
}

// next receives messages until there is more sound, or its end.
func (s *sound) next() error {
	for {
		ctx, cancel := context.WithTimeout(s.ctx, s.timeout)
		kind, data, err := s.ws.Read(ctx)
		cancel()
		if err != nil {
			return s.failure(err)
		}
		if kind == websocket.MessageText {
			if head, _, _ := strings.Cut(string(data), "\r\n\r\n"); pathOf(head) == "turn.end" {
				s.err = io.EOF
				return nil
			}
			continue // turn.start, response and audio.metadata
		}
		if s.rest, err = audioOf(data); err != nil || len(s.rest) > 0 {
			return err
		}
	}
}

// failure returns an error of the connection as an [*engine.Error], or that of the context.
func (s *sound) failure(err error) error {
	if s.ctx.Err() != nil {
		return context.Cause(s.ctx)
	}
	return socket.Classify(err)
}

// audioOf returns the sound in a binary message: the length of a header, in two bytes, the header
// and the sound (communicate.py, get_headers_and_data).
func audioOf(message []byte) ([]byte, error) {
	if len(message) < 2 || len(message)-2 < int(binary.BigEndian.Uint16(message)) {
		return nil, engine.Errorf(engine.Broken, "a message of the service is shorter than its header")
	}
	size := 2 + int(binary.BigEndian.Uint16(message))
	if pathOf(string(message[2:size])) != "audio" {
		return nil, engine.Errorf(engine.Broken, "a binary message of the service is no sound")
	}
	return message[size:], nil
}

// pathOf returns the path in a header.
func pathOf(head string) string {
	for line := range strings.SplitSeq(head, "\r\n") {
		if path, ok := strings.CutPrefix(line, "Path:"); ok {
			return strings.TrimSpace(path)
		}
	}
	return ""
}

// Read implements [io.Reader].
func (s *sound) Read(p []byte) (int, error) {
	for len(s.rest) == 0 && s.err == nil {
		if err := s.next(); err != nil {
			s.err = err
		}
	}
	if len(s.rest) == 0 {
		return 0, s.err
	}
	n := copy(p, s.rest)
	s.rest = s.rest[n:]
	return n, nil
}

// Close implements [io.Closer]. A server that ignores Close frames is not waited for.
func (s *sound) Close() error {
	_ = s.ws.CloseNow() // of no more use
	return nil
}
