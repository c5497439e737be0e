package openai

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"patchbay/internal/talk"
)

// streamOf returns a stream of n chunks as OpenAI sends it.
func streamOf(n int) [][]byte {
	piece := "data: " + usual["OpenAI"] + "\n\n"
	var out [][]byte
	for range n {
		out = append(out, []byte(piece))
	}
	end := strings.Replace(usual["OpenAI"], `"finish_reason":null`, `"finish_reason":"stop"`, 1)
	return append(out, []byte("data: "+end+"\n\n"), []byte("data: [DONE]\n\n"))
}

// inMemory returns a client that responds without a connection, so that only our own work is
// measured.
func inMemory(stream []byte) *http.Client {
	return &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
		return &http.Response{
			StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"text/event-stream"}},
			Body: io.NopCloser(bytes.NewReader(stream)), Request: r,
		}, nil
	})}
}

func counting(n *int) talk.Emit {
	return func(talk.Event) error { *n++; return nil }
}

func benchBot(b testing.TB, url string, client *http.Client) *Bot {
	bot, err := New(Settings{BaseURL: url, Model: "m", APIKey: "sk-secret-0123456789"}, Options{Client: client})
	if err != nil {
		b.Fatal(err)
	}
	return bot
}

const deltas = 200

// BenchmarkAnswer measures a turn with an answer of 200 chunks: in memory, our own work only; over
// a socket, with a server in the same process that flushes each chunk.
func BenchmarkAnswer(b *testing.B) {
	stream := streamOf(deltas)
	run := func(b *testing.B, bot *Bot) {
		turn := commanding("hi")
		b.ReportAllocs()
		for b.Loop() {
			n := 0
			if err := bot.Answer(context.Background(), turn, counting(&n)); err != nil || n != deltas+1 {
				b.Fatal(n, err)
			}
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/deltas, "ns/delta")
	}
	b.Run("memory", func(b *testing.B) {
		run(b, benchBot(b, "http://memory/v1", inMemory(bytes.Join(stream, nil))))
	})
	b.Run("socket", func(b *testing.B) {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			w.Header().Set("Content-Type", "text/event-stream")
			control := http.NewResponseController(w)
			for _, piece := range stream {
				_, _ = w.Write(piece)
				_ = control.Flush()
			}
		}))
		defer s.Close()
		bot := benchBot(b, s.URL, nil)
		defer bot.Close()
		run(b, bot)
	})
}

// BenchmarkDecode compares the two ways to decode a chunk.
func BenchmarkDecode(b *testing.B) {
	for _, server := range []string{"OpenAI", "Ollama"} {
		data := []byte(usual[server])
		for name, decode := range map[string]func(*delta) error{
			"quick": func(d *delta) error { return d.decode(data) },
			"json":  func(d *delta) error { *d = delta{}; return d.decodeSlow(data) },
		} {
			b.Run(fmt.Sprintf("%s/%s", server, name), func(b *testing.B) {
				b.ReportAllocs()
				var d delta
				for b.Loop() {
					if err := decode(&d); err != nil || d.text != " word" {
						b.Fatal(d.text, err)
					}
				}
			})
		}
	}
}

// TestAPieceCostsOneAllocation checks that a chunk costs one allocation, for the text itself.
func TestAPieceCostsOneAllocation(t *testing.T) {
	cost := func(n int) float64 {
		bot := benchBot(t, "http://memory/v1", inMemory(bytes.Join(streamOf(n), nil)))
		turn := question("hi")
		return testing.AllocsPerRun(50, func() {
			heard := 0
			if err := bot.Answer(context.Background(), turn, counting(&heard)); err != nil || heard != n+1 {
				t.Fatal(heard, err)
			}
		})
	}
	if perPiece := (cost(1100) - cost(100)) / 1000; perPiece > 1.05 {
		t.Errorf("%.2f allocations for each piece, want 1", perPiece)
	}
}
