package api

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"patchbay/internal/account"
)

// One point that is wrong, in whatever way, costs only itself: the others are kept, and its
// caller is told what is wrong with it. Rules of the tool's schema would refuse them all.
func TestBatchesKeepWhatIsRight(t *testing.T) {
	r, s, _ := described(t)
	key := r.Key(t, account.NewKey{Scopes: []string{account.ScopeOperator}})
	call := func(tool, args string, into any) {
		t.Helper()
		req := httptest.NewRequest(http.MethodPost, "/api/v1/tools/"+tool+"/call",
			strings.NewReader(`{"arguments":`+args+`}`))
		req.Header.Set("Authorization", "Bearer "+key)
		w := httptest.NewRecorder()
		s.ServeHTTP(w, req)
		lines := strings.Split(strings.TrimSpace(w.Body.String()), "\n")
		var end ToolLine
		if err := json.Unmarshal([]byte(lines[len(lines)-1]), &end); err != nil || w.Code != http.StatusOK ||
			end.Result == nil || end.Result.IsError {
			t.Fatalf("%s: %d %v %.1000s", tool, w.Code, err, w.Body)
		}
		if err := json.Unmarshal(end.Result.Structured, into); err != nil {
			t.Fatalf("%s: %v in %.1000s", tool, err, end.Result.Structured)
		}
	}
	long := func(n int) string { return `"` + strings.Repeat("x", n) + `"` }
	wrong := []string{
		`{"question":` + long(65_537) + `,"answer":"a"}`, `{"question":"q","answer":` + long(70_000) + `}`,
		`{"question":"","answer":"a"}`, `{"question":"q"}`, `{}`,
		`{"question":"q","answer":"a","deck":` + long(300) + `}`,
		`{"question":"q","answer":"a","tags":[` + long(300) + `]}`,
		`{"question":"q","answer":"a","tags":["` + strings.Join(strings.Split("abcdefghijklmnopqrstuvwxyz", ""),
			`","`) + `"]}`,
		`7`, `null`, `"q: a"`, `["q","a"]`, `{"question":{"text":"q"},"answer":"a"}`, `{"question":"q","answer":["a"]}`,
		`{"question":null,"answer":"a"}`, `{"question":"q","answer":"a","deck":[]}`,
		`{"question":"q","answer":"a","tags":{"a":1}}`, `{"question":"q","answer":"a","tags":[["a"]]}`,
	}
	var made struct {
		Created []string
		Errors  []struct {
			Index int
			Error string
		}
	}
	call("create_knowledge_points", `{"points":[{"question":"first","answer":"a"},`+strings.Join(wrong, ",")+
		`,{"question":"last","answer":42,"deck":"d","tags":"t"}]}`, &made)
	if len(made.Created) != 2 || len(made.Errors) != len(wrong) {
		t.Fatalf("made %.2000v", made)
	}
	for i, e := range made.Errors {
		if e.Index != i+1 || e.Error == "" {
			t.Errorf("%.60s: told %+v", wrong[i], e)
		}
	}
	var moved struct {
		Rescheduled []string
		Errors      map[string]string
	}
	call("reschedule_knowledge_points", `{"in_days":3,"ids":["`+made.Created[0]+`","",`+long(200)+`,"`+made.Created[1]+
		`",7,null,{"id":"x"}]}`, &moved)
	if len(moved.Rescheduled) != 2 || len(moved.Errors) != 5 {
		t.Errorf("moved %v", moved)
	}
}
