package main

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/coder/websocket"

	"patchbay/internal/netx"
)

// engines are a recogniser, a model and a speaker with fixed delays. The recogniser numbers the
// questions; the number is in the transcript, and so in all that follows from it.
type engines struct {
	scene  scene
	voice  *voice
	format string
	http   *http.Server
	URL    string // "127.0.0.1:…"

	mu    sync.Mutex
	turns []turn // the number of the first is 1
}

// turn is when the engines were given something to do, and when they were done.
type turn struct {
	ended, heard   time.Time // the sound has ended; the transcript was sent
	asked, token   time.Time // the model was asked; its first token was sent
	clause         time.Time // the token was sent that completes the first clause
	written, sound time.Time // the speaker got the first text; its first sound was sent
}

func startEngines(s scene, v *voice, format string) (*engines, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	e := &engines{scene: s, voice: v, format: format, URL: l.Addr().String()}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/chat/completions", e.think)
	mux.HandleFunc("POST /v1/audio/speech", e.speak)
	mux.HandleFunc("/", e.listen)
	e.http = &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	go e.http.Serve(l) //nolint:errcheck // ends with stop
	return e, nil
}

func (e *engines) stop() { e.http.Close() }

// begin returns the number of a new turn.
func (e *engines) begin() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.turns = append(e.turns, turn{})
	return len(e.turns)
}

// note changes a turn. The numbers of unknown turns are left out.
func (e *engines) note(number int, change func(t *turn, now time.Time)) {
	now := time.Now()
	e.mu.Lock()
	defer e.mu.Unlock()
	if number >= 1 && number <= len(e.turns) {
		change(&e.turns[number-1], now)
	}
}

// turn returns a turn; its fields are zero if there is none.
func (e *engines) turn(number int) (t turn) {
	e.note(number, func(of *turn, _ time.Time) { t = *of })
	return t
}

var digits = regexp.MustCompile(`[0-9]+`)

// numberIn returns the last number in a text, 0 if there is none.
func numberIn(text string) int {
	all := digits.FindAllString(text, -1)
	if len(all) == 0 {
		return 0
	}
	n, _ := strconv.Atoi(all[len(all)-1])
	return n
}

// listen is a recogniser (FunASR runtime/docs/websocket_protocol.md). It understands what is said
// at once, and tells it only at the end unless the scene is early.
func (e *engines) listen(w http.ResponseWriter, r *http.Request) {
	ws, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{"binary"}})
	if err != nil {
		return
	}
	defer ws.CloseNow() //nolint:errcheck // the client may have closed it
	ws.SetReadLimit(1 << 20)
	ctx := r.Context()
	number := e.begin()
	text := fmt.Sprintf("What about place %d at the moment", number)
	send := func(mode, text string) error {
		m, _ := json.Marshal(map[string]any{"mode": mode, "text": text}) // texts
		return ws.Write(ctx, websocket.MessageText, m)
	}
	for told := !e.scene.early; ; {
		kind, data, err := ws.Read(ctx)
		switch {
		case err != nil:
			return
		case kind == websocket.MessageBinary && !told:
			told = true
			if send("2pass-online", text) != nil {
				return
			}
		case kind == websocket.MessageText && strings.Contains(string(data), `"is_speaking":false`):
			e.note(number, func(t *turn, now time.Time) { t.ended = now })
			if netx.Wait(ctx, e.scene.listen) != nil || send("2pass-offline", text) != nil {
				return
			}
			e.note(number, func(t *turn, now time.Time) { t.heard = now })
			_ = ws.Close(websocket.StatusNormalClosure, "") // the client may have closed it
			return
		}
	}
}

// think is a model (OpenAI API reference, Create chat completion, streaming).
func (e *engines) think(w http.ResponseWriter, r *http.Request) {
	var q struct {
		Messages []struct {
			Role    string `json:"role"`
			Content any    `json:"content"`
		} `json:"messages"`
	}
	if err := json.NewDecoder(r.Body).Decode(&q); err != nil || len(q.Messages) == 0 {
		http.Error(w, "no messages", http.StatusBadRequest)
		return
	}
	number := numberIn(fmt.Sprint(q.Messages[len(q.Messages)-1].Content))
	e.note(number, func(t *turn, now time.Time) { t.asked = now })
	w.Header().Set("Content-Type", "text/event-stream")
	begun := time.Now()
	said := ""
	for i, token := range e.scene.answer(number) {
		due := e.scene.think
		if e.scene.tokens > 0 {
			due += time.Duration(i) * time.Second / time.Duration(e.scene.tokens)
		}
		if netx.Wait(r.Context(), time.Until(begun.Add(due))) != nil {
			return
		}
		writeChunk(w, map[string]any{"content": token}, nil)
		e.note(number, func(t *turn, now time.Time) {
			switch {
			case i == 0:
				t.token = now
			case t.clause.IsZero() && strings.ContainsAny(said, ",."):
				t.clause = now
			}
		})
		said += token
	}
	writeChunk(w, map[string]any{}, "stop")
	fmt.Fprint(w, "data: [DONE]\n\n")
}

// writeChunk writes an event of a model.
func writeChunk(w http.ResponseWriter, delta map[string]any, finish any) {
	m, _ := json.Marshal(map[string]any{"id": "1", "object": "chat.completion.chunk", "created": 1, "model": "m",
		"choices": []any{map[string]any{"index": 0, "delta": delta, "finish_reason": finish}}}) // texts and numbers
	fmt.Fprintf(w, "data: %s\n\n", m)
	_ = http.NewResponseController(w).Flush() // the client may have left
}

// speak is a speaker (OpenAI API reference, Create speech).
func (e *engines) speak(w http.ResponseWriter, r *http.Request) {
	var q struct {
		Input string `json:"input"`
	}
	if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
		http.Error(w, "no text", http.StatusBadRequest)
		return
	}
	number := numberIn(q.Input)
	e.note(number, func(t *turn, now time.Time) {
		if t.written.IsZero() {
			t.written = now
		}
	})
	if netx.Wait(r.Context(), e.scene.speak) != nil {
		return
	}
	sound := e.voice.say(e.format, e.scene.spoken(q.Input))
	e.note(number, func(t *turn, now time.Time) {
		if t.sound.IsZero() {
			t.sound = now
		}
	})
	w.Write(sound) //nolint:errcheck // the client has left
}

// letters is the number of letters and digits of a text.
func letters(text string) (n int) {
	for _, r := range text {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			n++
		}
	}
	return n
}
