package embed

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"patchbay/internal/porttest"
)

const key = "sk-secret-0123456789"

// server is an embeddings API in which the vector of a text is its length and 1.
func server(t *testing.T, check func(w http.ResponseWriter, r *http.Request, in request) bool) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(handler(t, check))
	t.Cleanup(s.Close)
	return s
}

func handler(t *testing.T, check func(w http.ResponseWriter, r *http.Request, in request) bool) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var in request
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
			t.Error(err)
		}
		if check != nil && check(w, r, in) {
			return
		}
		type item struct {
			Object    string    `json:"object"`
			Index     int       `json:"index"`
			Embedding []float32 `json:"embedding"`
		}
		var data []item
		for i := range in.Input {
			i = len(in.Input) - 1 - i // the order is not guaranteed
			data = append(data, item{"embedding", i, []float32{float32(len(in.Input[i])), 1}})
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{"object": "list", "data": data, "model": in.Model,
			"usage": map[string]int{"prompt_tokens": 8, "total_tokens": 8}})
	}
}

func refuse(w http.ResponseWriter, status int, message string) bool {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"error": map[string]any{"message": message,
		"type": "invalid_request_error", "param": nil, "code": nil}})
	return true
}

func client(t *testing.T, o Options) *Client {
	t.Helper()
	o.Key, o.Model = key, "text-embedding-3-small"
	c, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestEmbed(t *testing.T) {
	var asked atomic.Int64
	s := server(t, func(_ http.ResponseWriter, r *http.Request, in request) bool {
		asked.Add(1)
		if r.Method != http.MethodPost || r.URL.Path != "/v1/embeddings" ||
			r.Header.Get("Authorization") != "Bearer "+key || r.Header.Get("Content-Type") != "application/json" {
			t.Errorf("got %s %s %v", r.Method, r.URL.Path, r.Header)
		}
		if in.Model != "text-embedding-3-small" || in.Dimensions != 2 || in.EncodingFormat != "float" ||
			len(in.Input) > 2 {
			t.Errorf("got %+v", in)
		}
		return false
	})
	c := client(t, Options{URL: s.URL + "/v1/", Dims: 2, Batch: 2})
	got, err := c.Embed(context.Background(), []string{"a", "bb", "ccc"})
	if err != nil || !reflect.DeepEqual(got, [][]float32{{1, 1}, {2, 1}, {3, 1}}) || asked.Load() != 2 {
		t.Fatalf("got %v, %v, asked %d times", got, err, asked.Load())
	}
	if c.Model() != "text-embedding-3-small/2" || client(t, Options{URL: s.URL}).Model() != "text-embedding-3-small" {
		t.Error("the model's name should tell the length")
	}
	if got, err := c.Embed(context.Background(), nil); len(got) != 0 || err != nil {
		t.Errorf("nothing is %v, %v", got, err)
	}
}

func TestNew(t *testing.T) {
	for _, o := range []Options{{}, {URL: "api.openai.com/v1", Model: "m"}, {URL: "ftp://x", Model: "m"},
		{URL: "http://x"}, {URL: "http://x", Model: "m", Dims: -1}, {URL: "http://x", Model: "m", Batch: -1}} {
		if _, err := New(o); err == nil {
			t.Errorf("%+v was taken", o)
		}
	}
}

func TestAnswersThatCannotBeUsed(t *testing.T) {
	for _, test := range []struct{ name, body, want string }{
		{"a web page", `<html>`, "cannot be read"},
		{"no data", `{}`, "0 vectors for 2 texts"},
		{"too few", `{"data":[{"index":0,"embedding":[1]}]}`, "1 vectors for 2 texts"},
		{"twice the same", `{"data":[{"index":0,"embedding":[1,2]},{"index":0,"embedding":[1,2]}]}`, "twice"},
		{"beyond", `{"data":[{"index":0,"embedding":[1,2]},{"index":2,"embedding":[1,2]}]}`, "twice"},
		{"empty", `{"data":[{"index":0,"embedding":[]},{"index":1,"embedding":[]}]}`, "0 numbers"},
		{"another length", `{"data":[{"index":0,"embedding":[1,2,3]},{"index":1,"embedding":[1,2,3]}]}`,
			"3 numbers instead of 2"},
		{"base64", `{"data":[{"index":0,"embedding":"AAAA"}]}`, "cannot be read"},
		{"beyond a float32", `{"data":[{"index":0,"embedding":[1e99,1]},{"index":1,"embedding":[1,2]}]}`,
			"cannot be read"},
		{"no index", `{"data":[{"embedding":[1,2]},{"embedding":[3,4]}]}`, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := server(t, func(w http.ResponseWriter, _ *http.Request, _ request) bool {
				fmt.Fprint(w, test.body)
				return true
			})
			_, err := client(t, Options{URL: s.URL, Dims: 2}).Embed(context.Background(), []string{"a", "b"})
			if test.want == "" && err != nil || test.want != "" &&
				(err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

// The client repeats a request to a busy server once, after the requested delay, within bounds.
func TestAgain(t *testing.T) {
	for _, test := range []struct {
		name     string
		statuses []int // 200 after these
		after    string
		limit    time.Duration
		asked    int64
		waited   time.Duration
		refused  bool
		fails    bool
	}{
		{"429", []int{429}, "2", 0, 2, 2 * time.Second, false, false},
		{"429 for an hour", []int{429}, "3600", 0, 2, maxRetryDelay, false, false},
		{"500 that does not say", []int{500}, "", 0, 2, retryDelay, false, false},
		{"503 twice", []int{503, 503}, "", 0, 2, retryDelay, false, true},
		{"400", []int{400}, "1", 0, 1, 0, true, true},
		{"401", []int{401}, "1", 0, 1, 0, false, true},
		{"no time for the pause", []int{429}, "9", time.Second, 1, 0, false, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var asked atomic.Int64
				h := handler(t, func(w http.ResponseWriter, _ *http.Request, _ request) bool {
					i := int(asked.Add(1)) - 1
					if i >= len(test.statuses) {
						return false
					}
					w.Header().Set("Retry-After", test.after)
					return refuse(w, test.statuses[i], "Incorrect key "+key)
				})
				c := client(t, Options{URL: "http://embed.test/v1", Client: &http.Client{Transport: inside{h}}})
				ctx := context.Background()
				if test.limit > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, test.limit)
					defer cancel()
				}
				began := time.Now()
				_, err := c.Embed(ctx, []string{"a"})
				if (err != nil) != test.fails || asked.Load() != test.asked || time.Since(began) != test.waited {
					t.Errorf("got %v, asked %d times in %v", err, asked.Load(), time.Since(began))
				}
				if !test.fails {
					return
				}
				e, ok := errors.AsType[*Error](err)
				if !ok || e.Refused() != test.refused || strings.Contains(err.Error(), key) ||
					!strings.Contains(err.Error(), "Incorrect key ***") {
					t.Errorf("got %v", err)
				}
			})
		})
	}
}

// inside passes requests to a handler without a network, so that the test's clock can stand still.
type inside struct{ h http.Handler }

func (i inside) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	i.h.ServeHTTP(w, r)
	return w.Result(), nil
}

// No error contains the key, or the address, which may hold one.
func TestSecrets(t *testing.T) {
	address := "http://user:hidden@" + porttest.Refused(t)
	_, err := client(t, Options{URL: address + "/v1?token=hidden"}).Embed(context.Background(), []string{"a"})
	if err == nil || strings.Contains(err.Error(), "hidden") || strings.Contains(err.Error(), key) {
		t.Errorf("got %v", err)
	}
}

// A server that does not respond takes no more than the caller's time.
func TestSilence(t *testing.T) {
	done := make(chan struct{})
	s := server(t, func(_ http.ResponseWriter, r *http.Request, _ request) bool {
		<-done
		return true
	})
	defer close(done)
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if _, err := client(t, Options{URL: s.URL}).Embed(ctx, []string{"a"}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}

// FuzzRead parses responses of servers.
func FuzzRead(f *testing.F) {
	f.Add([]byte(`{"data":[{"index":1,"embedding":[1,2]},{"index":0,"embedding":[0.5,-2e-3]}]}`))
	f.Add([]byte(`{"data":[{"embedding":[1]},{"embedding":null}]}`))
	f.Add([]byte(`{"data":null}`))
	c := &Client{}
	f.Fuzz(func(t *testing.T, text []byte) {
		got, err := c.read(text, 2)
		if err == nil && (len(got) != 2 || len(got[0]) == 0 || len(got[0]) != len(got[1])) {
			t.Errorf("got %v", got)
		}
	})
}
