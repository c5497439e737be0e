package openai

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"patchbay/internal/i18n"
	"patchbay/internal/talk"
)

func TestHTTP2(t *testing.T) {
	gone := make(chan struct{})
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor != 2 {
			t.Errorf("asked over %s", r.Proto)
		}
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = w.Write(bytes.Join(streamOf(1)[:1], nil))
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
		close(gone)
	}))
	s.EnableHTTP2 = true
	s.StartTLS()
	defer s.Close()
	b := benchBot(t, s.URL, s.Client())
	ctx, cancel := context.WithCancel(testContext(t))
	err := b.Answer(ctx, question("hi"), func(e talk.Event) error {
		if e.Text != "word" {
			t.Errorf("got %q", e.Text)
		}
		cancel()
		return nil
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	await(t, gone, "the end of the request at the server")
}

func TestACertificateThatNobodyKnows(t *testing.T) {
	s := httptest.NewTLSServer(http.NotFoundHandler())
	s.Config.ErrorLog = nil
	defer s.Close()
	b := newRig(t, s.URL, nil)
	_, err := b.ask(t, question("hi"))
	if f := failure(t, err); f.Told != msgUnreachable.In(i18n.English) || len(b.pauses) != 0 {
		t.Errorf("got %+v after pauses of %v", f, b.pauses)
	}
}

// forever repeats a text.
type forever struct {
	text string
	at   int
}

func (f *forever) Read(p []byte) (int, error) {
	n := copy(p, f.text[f.at:])
	f.at = (f.at + n) % len(f.text)
	return n, nil
}

func TestAnswersWithoutEnd(t *testing.T) {
	for name, body := range map[string]struct{ start, text string }{
		"of comments": {"", ": " + strings.Repeat("x", 1000) + "\n"},
		"of JSON":     {`{"choices":[`, `{"index":0},`},
		"of a line":   {"", "x"},
	} {
		b := benchBot(t, "http://memory/v1", &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response,
			error) {
			return &http.Response{StatusCode: http.StatusOK, Request: r,
				Body: io.NopCloser(io.MultiReader(strings.NewReader(body.start), &forever{text: body.text}))}, nil
		})})
		n := 0
		f := failure(t, b.Answer(testContext(t), question("hi"), counting(&n)))
		if f.Code != talk.BotFailed || f.Told != msgGarbled.In(i18n.English) {
			t.Errorf("%s: got %+v", name, f)
		}
	}
}

func TestTheClientsTimeoutIsNotUsed(t *testing.T) {
	client := NewClient()
	client.Timeout = 1
	if b := benchBot(t, "http://memory/v1", client); b.client.Timeout != 0 || client.Timeout != 1 {
		t.Error("the timeout of the client holds")
	}
}
