package openai

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	. "patchbay/internal/plug/openai/openaitest"
)

func TestCheck(t *testing.T) {
	const key = "sk-secret-0123456789"
	tests := []struct {
		name   string
		server func(*Server)
		change func(*Settings)
		asked  int    // number of questions it takes
		want   string // "" if the check succeeds
	}{
		{"all is well", func(s *Server) { s.Key, s.Models = key, []string{"other", "test-model"} }, nil, 0, ""},
		{"no key needed", func(s *Server) { s.Models = []string{"test-model"} }, func(s *Settings) { s.APIKey = "" }, 0,
			""},
		{"Ollama's latest", func(s *Server) { s.Models = []string{"test-model:latest"} },
			func(s *Settings) { s.APIKey = "" }, 0, ""},
		{"a list for everybody", func(s *Server) { s.Key, s.Models, s.OpenModels = key, []string{"test-model"}, true },
			nil, 1, ""},
		{"a list for everybody, wrong key", func(s *Server) {
			s.Key, s.Models,
				s.OpenModels = "another", []string{"test-model"}, true
		}, nil, 0, "does not accept the key; check api_key"},
		{"wrong key", func(s *Server) { s.Key = "another" }, nil, 0,
			"127.0.0.1 does not accept the key; check api_key"},
		{"no key", func(s *Server) { s.Key = "another" }, func(s *Settings) { s.APIKey = "" }, 0,
			"wants a key; set api_key"},
		{"no list", func(s *Server) { s.Key, s.NoModels = key, true }, nil, 1, ""},
		{"no list, wrong key", func(s *Server) { s.Key, s.NoModels = "another", true }, nil, 0,
			"does not accept the key"},
		{"a model that is not listed", func(s *Server) { s.Key = key }, nil, 1, ""},
		{"an unknown model", func(s *Server) { s.Key, s.Models = key, []string{"a", "b"} }, nil, 1,
			`does not know the model "test-model"; it has a, b (`},
		{"no list, an unknown model", func(s *Server) { s.NoModels, s.Models = true, []string{"a"} }, nil, 1,
			`does not answer as model "test-model"`},
		{"another path", nil, func(s *Settings) { s.BaseURL = strings.TrimSuffix(s.BaseURL, "/v1") }, 0,
			"check base_url, which often ends in /v1"},
		{"no credit", func(s *Server) { s.Script(Reply{Status: 429, Code: "insufficient_quota"}) }, nil, 1,
			"its account has no credit left"},
		{"an error in the stream", func(s *Server) { s.Script(Reply{Body: `{"error":{"message":"out of memory"}}`}) },
			nil, 1, "out of memory"},
		{"no word", func(s *Server) {
			s.Script(Reply{Body: "data: [DONE]\n\n", Header: http.Header{"Content-Type": {"text/event-stream"}}})
		}, nil, 1, "ended the answer without a word"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := startServer(t)
			if tt.server != nil {
				tt.server(s)
			}
			err := newRig(t, s.URL, tt.change).Check(testContext(t))
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
			if err != nil && strings.Contains(err.Error(), key) {
				t.Errorf("the key got out: %v", err)
			}
			if len(s.Requests()) != tt.asked {
				t.Errorf("asked %d times, want %d", len(s.Requests()), tt.asked)
			}
		})
	}
}

func TestCheckOfWhatIsNotThere(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		w.Write([]byte("<html>welcome"))
	}))
	defer web.Close()
	for base, want := range map[string]string{
		"http://" + l.Addr().String():                       "cannot be reached (connection refused)",
		"https://" + strings.TrimPrefix(web.URL, "http://"): "does base_url need http",
		web.URL: "there is no chat API at " + web.URL + "/chat/completions (a web page came",
	} {
		if err := newRig(t, base, nil).Check(testContext(t)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", base, err, want)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := newRig(t, web.URL, nil).Check(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestCheckNamesAFewModels(t *testing.T) {
	s := startServer(t)
	s.Models = strings.Split("a b c d e f g h i j k", " ")
	err := newRig(t, s.URL, nil).Check(testContext(t))
	if err == nil || !strings.Contains(err.Error(), "it has a, b, c, d, e, f, g, h and 3 more") {
		t.Errorf("got %v", err)
	}
}
