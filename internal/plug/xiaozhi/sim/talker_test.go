package sim

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"patchbay/internal/netx"
	"patchbay/internal/plug/xiaozhi/wire"
)

// talker is the server's part of one conversation: it waits for the end of speech, and then sends
// an answer.
type talker struct {
	s       *server
	out     side
	session string
	ctx     context.Context
	quit    context.CancelFunc
	wg      sync.WaitGroup

	mu        sync.Mutex
	listening bool
	since     time.Time // start of listening
	mode      string
	voiced    int
	silent    int
	stop      context.CancelFunc // cancels the answer
	speaking  bool
	waiters   map[int]chan []byte
	packets   int
	pongs     int
	starts    int
}

func (s *server) talker(out side) *talker {
	t := &talker{s: s, out: out, waiters: map[int]chan []byte{}}
	t.ctx, t.quit = context.WithCancel(context.Background())
	return t
}

func (t *talker) end() {
	t.quit()
	t.wg.Wait()
}

func (t *talker) say(m wire.Message) {
	m.SessionID = t.session
	t.out.sendText(string(m.Append(nil)))
}

// text handles a message of the board.
func (t *talker) text(data []byte) {
	m, err := wire.Parse(data)
	if err != nil {
		if t.s.wrong == "strict about messages" {
			t.out.close(t)
		}
		return
	}
	switch m.Type {
	case wire.TypeHello:
		if t.s.wrong == "no hello" {
			t.out.close(t)
			return
		}
		t.out.sendText(t.s.hello(t))
		if t.s.wrong == "audio before start" {
			t.out.sendAudio(voice)
		}
		t.s.talkers <- t
		t.wg.Go(t.tools)
	case wire.TypeMCP:
		if id, err := idOf(m.Payload); err == nil {
			t.mu.Lock()
			w := t.waiters[id]
			delete(t.waiters, id)
			t.mu.Unlock()
			if w != nil {
				w <- m.Payload
			}
		}
	case wire.TypeListen:
		t.listen(m)
	case wire.TypeAbort:
		t.aborted()
	}
}

func (t *talker) listen(m wire.Message) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch m.State {
	case wire.ListenDetect:
		if t.s.wrong == "wake word as request" {
			t.wg.Go(func() { t.say(wire.Message{Type: wire.TypeSTT, Text: m.Text}) })
		}
	case wire.ListenStart:
		t.listening, t.mode, t.voiced, t.silent = true, m.Mode, 0, 0
		t.since = time.Now()
		t.starts++
		if t.stop != nil { // interrupted by the wake word
			t.stop()
		}
	case wire.ListenStop:
		t.listening = false
		t.answerLocked()
	}
}

// wakeTail is how long datagrams of the wake word may arrive after listen/start, which is sent over
// MQTT. The microphone needs longer to start.
const wakeTail = 60 * time.Millisecond

// heard handles an audio packet of the board.
func (t *talker) heard(opus []byte) {
	if _, err := wire.Duration(opus); err != nil && t.s.wrong == "strict about audio" {
		t.out.close(t)
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.packets++
	if !t.listening || t.speaking || time.Since(t.since) < wakeTail {
		return
	}
	if len(opus) > 60 {
		t.voiced, t.silent = t.voiced+1, 0
	} else if t.voiced > 2 {
		if t.silent++; t.silent >= 5 && t.mode != wire.ModeManual {
			t.listening = t.mode == wire.ModeRealtime
			t.voiced = 0
			t.answerLocked()
		}
	}
}

func (t *talker) answerLocked() {
	ctx, stop := context.WithCancel(t.ctx)
	t.stop, t.speaking = stop, true
	t.wg.Go(func() {
		defer stop()
		t.answer(ctx)
		t.mu.Lock()
		t.speaking = false
		t.mu.Unlock()
	})
}

// voice is an audio packet: CELT, 60 ms.
var voice = append([]byte{0xbb, 0x03}, make([]byte, 180)...)

// answer sends an answer at playback speed.
func (t *talker) answer(ctx context.Context) {
	wrong := t.s.wrong
	t.say(wire.Message{Type: wire.TypeSTT, Text: "good morning"})
	t.say(wire.Message{Type: wire.TypeLLM, Emotion: "happy"})
	if wrong == "audio without start" {
		t.out.sendAudio(voice)
	}
	t.say(wire.Message{Type: wire.TypeTTS, State: wire.TTSStart})
	if wrong == "start twice" {
		t.say(wire.Message{Type: wire.TypeTTS, State: wire.TTSStart})
	}
	if wrong == "early sentence" {
		t.say(wire.Message{Type: wire.TypeTTS, State: wire.TTSSentenceStart, Text: "Good morning."})
		_ = netx.Wait(ctx, 400*time.Millisecond)
	} else if wrong != "audio with start" {
		_ = netx.Wait(ctx, 40*time.Millisecond)
	}
	frame := wire.DownlinkFrame
	begin := time.Now()
	n := max(t.s.frames, 8)
	ahead := 2
	switch wrong {
	case "burst":
		ahead = n
	case "burst of five":
		ahead = 4
	case "hundred at once":
		n, ahead = 100, 100
	}
	aborted := false
	for i := range n {
		due := begin.Add(time.Duration(i-ahead) * frame)
		if wrong == "stutter" && i >= 4 {
			due = due.Add(500 * time.Millisecond)
		}
		wait := ctx
		if wrong == "deaf to abort" {
			wait = t.ctx
		}
		if netx.Wait(wait, time.Until(due)) != nil {
			aborted = true
			break
		}
		if i == 0 && wrong != "early sentence" {
			t.say(wire.Message{Type: wire.TypeTTS, State: wire.TTSSentenceStart, Text: "Good morning."})
		}
		packet := voice
		if wrong == "long packet" {
			packet = append([]byte{0xbb, 0x06}, make([]byte, 180)...)
		}
		if wrong == "no opus" {
			packet = []byte{0xbb}
		}
		t.sendVoice(packet)
	}
	end := begin.Add(time.Duration(n)*frame + 160*time.Millisecond)
	switch wrong {
	case "early stop":
		end = begin
	case "late stop":
		end = end.Add(700 * time.Millisecond)
	case "late stop after abort":
		if aborted {
			_ = netx.Wait(t.ctx, 500*time.Millisecond)
		}
	case "no stop after abort":
		if aborted {
			return
		}
	}
	if !aborted {
		_ = netx.Wait(ctx, time.Until(end))
	}
	t.say(wire.Message{Type: wire.TypeTTS, State: wire.TTSStop})
	if wrong == "audio after stop" {
		t.out.sendAudio(voice)
	}
}

func (t *talker) sendVoice(packet []byte) {
	w, ok := t.out.(*wsSide)
	switch {
	case ok && t.s.wrong == "bare frames":
		w.frame(opBinary, packet)
	case ok && t.s.wrong == "headers":
		w.frame(opBinary, wire.FramingShort.Append(nil, 0, packet))
	case ok && t.s.wrong == "wrong size":
		f := w.framing.Append(nil, 0, packet)
		w.frame(opBinary, f[:len(f)-3])
	default:
		t.out.sendAudio(packet)
	}
}

func (t *talker) aborted() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.stop != nil {
		t.stop()
	}
}

// request sends an MCP request and waits for the reply.
func (t *talker) request(id int, method, params string) string {
	w := make(chan []byte, 1)
	t.mu.Lock()
	t.waiters[id] = w
	t.mu.Unlock()
	t.say(wire.Message{Type: wire.TypeMCP, Payload: fmt.Appendf(nil,
		`{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`, id, method, params)})
	select {
	case p := <-w:
		return string(p)
	case <-t.ctx.Done():
		return ""
	}
}

// tools lists the board's tools.
func (t *talker) tools() {
	init := fmt.Sprintf(`{"capabilities":{"vision":{"url":"%s/vision","token":"see"}}}`, t.s.http.URL)
	t.request(1, "initialize", init)
	raw := func(payload string) { t.say(wire.Message{Type: wire.TypeMCP, Payload: []byte(payload)}) }
	switch t.s.wrong {
	case "initialize twice":
		t.request(2, "initialize", init)
	case "text id":
		raw(`{"jsonrpc":"2.0","id":"a","method":"tools/list","params":{}}`)
	case "long id":
		raw(`{"jsonrpc":"2.0","id":1790000000000,"method":"tools/list","params":{}}`)
	case "null params":
		raw(`{"jsonrpc":"2.0","id":3,"method":"tools/list","params":null}`)
	case "null arguments":
		raw(`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"self.get_device_status","arguments":null}}`)
	case "wrong cursor":
		t.request(3, "tools/list", `{"cursor":"nothing"}`)
	}
	cursor := ""
	for id := 10; ; id++ {
		params, _ := json.Marshal(map[string]any{"cursor": cursor, "withUserTools": t.s.wrong != "half with users" ||
			cursor == ""})
		var reply struct {
			Result struct {
				Tools      []struct{ Name string } `json:"tools"`
				NextCursor string                  `json:"nextCursor"`
			} `json:"result"`
		}
		text := t.request(id, "tools/list", string(params))
		if json.Unmarshal([]byte(text), &reply) != nil {
			return
		}
		for _, tool := range reply.Result.Tools {
			t.s.calls <- tool.Name
		}
		if cursor = reply.Result.NextCursor; cursor == "" || t.s.wrong == "first page only" {
			break
		}
	}
	t.s.calls <- ""
}
