package stdio

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
)

// FuzzEvents reads a stream in one piece and byte by byte, with the same result.
func FuzzEvents(f *testing.F) {
	for _, text := range []string{
		"event: message\r\nid: 1\ndata: {}\n\n", ":\n\ndata:a\ndata: b\n\nretry: 10\n\n", "id: x\ndata: y",
		"data\n\nid\n\nretry: -1\n\n", "\ufeffdata: x\n\n",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		read := func(r io.Reader) string {
			in, all := newEventReader(r), ""
			for {
				e, err := in.next()
				if err != nil {
					return all + fmt.Sprint(in.lastID, in.retry)
				}
				if bytes.ContainsAny(e.data, "\r") && !bytes.Contains(text, []byte("\r")) || in.retry > maxRetry {
					t.Fatalf("%q from %q", e.data, text)
				}
				all += fmt.Sprintf("%q %q %t %q\n", e.name, e.data, e.tooLarge, in.lastID)
			}
		}
		if a, b := read(bytes.NewReader(text)), read(oneByte{bytes.NewReader(text)}); a != b {
			t.Fatalf("%s, byte by byte %s", a, b)
		}
	})
}

type oneByte struct{ r io.Reader }

func (o oneByte) Read(b []byte) (int, error) { return o.r.Read(b[:min(len(b), 1)]) }

// FuzzServe sends any input to a server with any output. The output has only messages, one per
// line.
func FuzzServe(f *testing.F) {
	f.Add([]byte(hello+"\n"+call("1", "x", "{}")), []byte(`{"jsonrpc":"2.0","id":1,"result":{}}`), false, 200)
	f.Add([]byte(call(`"a"`, "x", "{}")+"\n"+call(`"a"`, "x", "{}")),
		[]byte("id: 1\ndata: {\"jsonrpc\":\"2.0\",\ndata: \"id\":\"a\",\"result\":{}}\n\n"), true, 200)
	f.Add([]byte(`[{"jsonrpc":"2.0","id":1,"method":"ping"},7]`), []byte(`{"error":{"message":"no"}}`), false, 401)
	f.Add([]byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"ä","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28\n"}}}`), []byte(`x`), true, 404)
	f.Fuzz(func(t *testing.T, in, body []byte, stream bool, status int) {
		if bytes.Contains(in, []byte("initialized")) || status < 200 || status > 599 || status == 502 || status == 503 {
			t.Skip("it would go on")
		}
		var out bytes.Buffer
		p, err := newProxy(t.Context(), Options{In: bytes.NewReader(in), Out: &out,
			URL: "http://x", Key: "k", Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		p.retryTimeout = 0
		p.client = &http.Client{Transport: says(func(*http.Request) *http.Response {
			w := httptest.NewRecorder()
			w.Header().Set("Content-Type", "application/json")
			if stream {
				w.Header().Set("Content-Type", "text/event-stream")
			}
			w.WriteHeader(status)
			w.Write(body) //nolint:errcheck // in memory
			return w.Result()
		})}
		if err := p.serve(); err != nil {
			t.Fatal(err)
		}
		for l := range bytes.Lines(out.Bytes()) {
			if l[len(l)-1] != '\n' || !json.Valid(l) {
				t.Fatalf("%q says %q", in, l)
			}
		}
	})
}

type says func(*http.Request) *http.Response

func (s says) RoundTrip(r *http.Request) (*http.Response, error) { return s(r), nil }
