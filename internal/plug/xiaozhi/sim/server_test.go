package sim

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"patchbay/internal/plug/xiaozhi/wire"
)

// bubble runs a test in a synctest bubble.
func bubble(t *testing.T, name string, test func(t *testing.T)) {
	t.Run(name, func(t *testing.T) { synctest.Test(t, test) })
}

// server is a minimal conforming server, apart from the fault that the test selects.
type server struct {
	t     *testing.T
	wrong string // the fault; "" for none
	mqtt  bool   // offers MQTT
	net   *memNet
	plan  wire.Framing
	http  *httptest.Server
	wg    sync.WaitGroup

	broker net.Listener
	audio  net.PacketConn

	mu      sync.Mutex
	links   map[uint32]*talker // UDP sessions by ssrc
	conns   map[net.Conn]bool
	ids     int
	polls   int
	calls   chan string  // results of tool calls
	talkers chan *talker // one for each hello
	photos  [][]byte
	frames  int // of an answer; 0: 8
	onPhoto func()
}

// newServer makes a server for a test in a bubble.
func newServer(t *testing.T, wrong string, mqtt bool) *server {
	return newServerOn(t, newMemNet(), wrong, mqtt)
}

func newServerOn(t *testing.T, network *memNet, wrong string, mqtt bool) *server {
	s := &server{
		t: t, net: network, wrong: wrong, mqtt: mqtt, plan: wire.FramingBare, links: map[uint32]*talker{},
		conns: map[net.Conn]bool{},
		calls: make(chan string, 100), talkers: make(chan *talker, 100),
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/xiaozhi/ota/", s.ota)
	mux.HandleFunc("/xiaozhi/ota/activate", s.activate)
	mux.HandleFunc("/xiaozhi/v1/", s.socket)
	mux.HandleFunc("/vision", s.vision)
	mux.HandleFunc("/firmware", s.firmware)
	mux.HandleFunc("/notice.ogg", s.notice)
	listener, err := network.listen()
	if err != nil {
		t.Fatal(err)
	}
	s.http = &httptest.Server{Listener: listener, Config: &http.Server{Handler: mux}}
	if wrong == "TLS" {
		s.http.StartTLS()
	} else {
		s.http.Start()
	}
	if mqtt {
		if s.broker, err = network.listen(); err == nil {
			s.audio, err = network.listenPacket()
		}
		if err != nil {
			t.Fatal(err)
		}
		s.wg.Go(s.accept)
		s.wg.Go(s.datagrams)
	}
	t.Cleanup(s.close)
	return s
}

func (s *server) close() {
	if s.mqtt {
		_ = s.broker.Close()
		_ = s.audio.Close()
	}
	s.mu.Lock()
	for c := range s.conns {
		_ = c.Close()
	}
	s.mu.Unlock()
	s.http.Close()
	s.wg.Wait()
}

// board makes a board for the server.
func (s *server) board(opt Options) *Board {
	opt.OTA = s.http.URL + "/xiaozhi/ota/"
	opt.Dial = s.net.dial
	if s.net == nil {
		opt.Slack = 20 * time.Second // for busy machines
	}
	opt.Scale = 0.005
	b := New(opt)
	s.t.Cleanup(b.Close)
	return b
}

func (s *server) ota(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet {
		if s.wrong == "no health text" {
			w.WriteHeader(http.StatusMethodNotAllowed)
		}
		_, _ = io.WriteString(w, "fine")
		return
	}
	body, _ := io.ReadAll(r.Body)
	board := wire.ParseOTARequest(body)
	a := wire.OTAResponse{Time: &wire.ServerTime{Timestamp: time.Now().UnixMilli()},
		Firmware: wire.Firmware{Version: board.Application.Version}}
	if a.Firmware.Version == "" {
		a.Firmware.Version = "2.4.2"
	}
	if s.mqtt {
		a.MQTT = &wire.MQTTConfig{Endpoint: s.broker.Addr().String(),
			ClientID: "c@@@" + r.Header.Get(wire.HeaderDevice),
			Username: "u", Password: "right", Publish: "device-server", Subscribe: "null", Keepalive: 240}
	} else {
		a.WebSocket = &wire.WebSocketConfig{URL: "ws" + strings.TrimPrefix(s.http.URL, "http") + "/xiaozhi/v1/",
			Token: "t-" + r.Header.Get(wire.HeaderDevice), Version: s.plan}
	}
	s.mu.Lock()
	polls := s.polls
	s.mu.Unlock()
	switch s.wrong {
	case "activation", "activation for ever", "activation fails":
		if polls < 3 || s.wrong == "activation for ever" && polls < 5 {
			a.Activation = &wire.Activation{Code: "123456", Message: "type 123456", Challenge: "c"}
		}
	case "upgrade", "upgrade without length", "upgrade redirected", "upgrade for ever":
		if board.Application.Version != "9.9.9" {
			a.Firmware = wire.Firmware{Version: "9.9.9", URL: s.http.URL + "/firmware"}
		} else if s.wrong == "upgrade for ever" {
			a.Firmware = wire.Firmware{Version: "9.9.9", URL: s.http.URL + "/firmware", Force: 1}
		}
	}
	answer, err := a.Marshal()
	if err != nil {
		s.t.Error(err)
	}
	text := string(answer)
	switch s.wrong {
	case "status":
		w.WriteHeader(http.StatusCreated)
	case "redirect":
		http.Redirect(w, r, "/elsewhere", http.StatusFound)
		return
	case "long answer":
		text = strings.TrimSuffix(strings.TrimSpace(text), "}") + `,"x":"` + strings.Repeat("x", 8192) + `"}`
	case "no JSON":
		text = "<html>"
	case "nowhere":
		text = `{"firmware":{"version":"1.0","url":""}}`
	case "long key":
		text = strings.Replace(text, `"token":`, `"websocket_token_":"x","token":`, 1)
	case "version":
		text = strings.Replace(text, `"version":"2.4.2","url":""`, `"version":"v3","url":"http://x/"`, 1)
	case "strict":
		if board.MAC == "" {
			w.WriteHeader(http.StatusBadRequest)
		}
	case "slow":
		<-time.After(500 * time.Millisecond)
	}
	_, _ = io.WriteString(w, text)
}

func (s *server) activate(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	s.polls++
	done := s.polls >= 3
	s.mu.Unlock()
	switch {
	case s.wrong == "activation fails":
		w.WriteHeader(http.StatusInternalServerError)
	case !done:
		w.WriteHeader(http.StatusAccepted)
	}
}

func (s *server) firmware(w http.ResponseWriter, r *http.Request) {
	switch s.wrong {
	case "upgrade without length":
		w.(http.Flusher).Flush()
	case "upgrade redirected":
		http.Redirect(w, r, "/elsewhere", http.StatusFound)
		return
	}
	_, _ = w.Write(make([]byte, 1000))
}

func (s *server) vision(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Authorization") != "Bearer see" || len(r.TransferEncoding) == 0 ||
		r.ParseMultipartForm(1<<20) != nil {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	f, _, err := r.FormFile("file")
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	data, _ := io.ReadAll(f)
	s.mu.Lock()
	s.photos = append(s.photos, data)
	s.mu.Unlock()
	if s.onPhoto != nil {
		s.onPhoto()
	}
	if s.wrong == "photo refused" {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	_, _ = fmt.Fprintf(w, `{"success":true,"text":"a %s"}`, r.FormValue("question"))
}

// notice serves a picture or a sound, and accepts uploads.
func (s *server) notice(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodPost {
		_, _ = io.Copy(io.Discard, r.Body)
		return
	}
	_, _ = io.WriteString(w, "OggS............OpusHead\x01\x01..")
}

func (s *server) track(c net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conns[c] = true
}

// socket serves the WebSocket, without a library.
func (s *server) socket(w http.ResponseWriter, r *http.Request) {
	token := r.Header.Get("Authorization")
	if token != "Bearer t-"+r.Header.Get(wire.HeaderDevice) && s.wrong != "any token" {
		status := http.StatusUnauthorized
		if s.wrong == "403" {
			status = http.StatusForbidden
		}
		w.WriteHeader(status)
		return
	}
	if strings.Contains(r.Host, ":") || r.Header.Get("Origin")+r.Header.Get("Sec-WebSocket-Extensions") != "" {
		s.t.Errorf("boards do not send this: %s %v", r.Host, r.Header)
	}
	conn, rw, err := w.(http.Hijacker).Hijack()
	if err != nil {
		s.t.Error(err)
		return
	}
	s.track(conn)
	s.wg.Add(1)
	defer s.wg.Done()
	_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n")
	t := s.talker(&wsSide{conn: conn, framing: wire.Framing(r.Header.Get(wire.HeaderFraming)[0] - '0')})
	defer t.end()
	defer conn.Close() //nolint:errcheck // the connection has ended
	in := rw.Reader
	for {
		_, op, data, err := readFrame(in)
		if err != nil {
			return
		}
		switch op {
		case opText:
			t.text(data)
		case opPong:
			t.mu.Lock()
			t.pongs++
			t.mu.Unlock()
		case opBinary:
			opus, _, err := t.out.(*wsSide).framing.Parse(data)
			if err == nil {
				t.heard(opus)
			}
		}
	}
}

// side is a talker's transport to its board.
type side interface {
	sendText(text string)
	sendAudio(opus []byte)
	close(t *talker)
}

type wsSide struct {
	mu      sync.Mutex
	conn    net.Conn
	framing wire.Framing
}

func (w *wsSide) frame(op byte, data []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	b := []byte{0x80 | op}
	if len(data) < 126 {
		b = append(b, byte(len(data)))
	} else {
		b = binary.BigEndian.AppendUint16(append(b, 126), uint16(len(data)))
	}
	_, _ = w.conn.Write(append(b, data...))
}

func (w *wsSide) sendText(text string)  { w.frame(opText, []byte(text)) }
func (w *wsSide) sendAudio(opus []byte) { w.frame(opBinary, w.framing.Append(nil, 0, opus)) }

func (w *wsSide) close(t *talker) {
	if t.s.wrong != "no Close frame" {
		w.frame(opClose, []byte{3, 232})
	}
	if t.s.wrong != "open after Close" {
		_ = w.conn.Close()
	}
}

// hello returns the server's hello; over MQTT with a new key.
func (s *server) hello(t *talker) string {
	s.mu.Lock()
	s.ids++
	id := s.ids
	s.mu.Unlock()
	t.session = fmt.Sprintf("session-%d", id)
	h := wire.Hello{Transport: wire.WebSocket, SessionID: t.session,
		Audio: wire.Audio{Format: "opus", SampleRate: 24000, Channels: 1, FrameDuration: 60}}
	if side, ok := t.out.(*mqttSide); ok {
		key := make([]byte, 16)
		key[0] = byte(id)
		if s.wrong == "same key" {
			key[0] = 0
		}
		nonce := wire.Nonce(uint32(id))
		side.mu.Lock()
		side.seal, _ = wire.NewCipher(key)
		side.open, _ = wire.NewCipher(key)
		side.ssrc, side.last, side.next, side.addr = uint32(id), 0, 0, nil
		side.mu.Unlock()
		s.mu.Lock()
		s.links[uint32(id)] = t
		s.mu.Unlock()
		h.Version, h.Transport = 3, wire.UDP
		h.Link = &wire.Link{Server: "127.0.0.1", Port: s.audio.LocalAddr().(*net.UDPAddr).Port,
			Encryption: "aes-128-ctr", Key: fmt.Sprintf("%x", key), Nonce: fmt.Sprintf("%x", nonce)}
	}
	switch s.wrong {
	case "no transport":
		h.Transport = ""
	case "no session":
		h.SessionID = ""
	case "same session":
		h.SessionID, t.session = "always", "always"
	case "sample rate":
		h.Audio.SampleRate = 44100
	case "slow hello":
		<-time.After(700 * time.Millisecond)
	case "no udp":
		h.Link = nil
	case "short key":
		h.Link.Key = "00"
	}
	return string(h.AppendServer(nil))
}

var errNoID = errors.New("no id")

// idOf returns the id of a reply.
func idOf(payload []byte) (int, error) {
	var in struct {
		ID *int `json:"id"`
	}
	if json.Unmarshal(payload, &in) != nil || in.ID == nil {
		return 0, errNoID
	}
	return *in.ID, nil
}
