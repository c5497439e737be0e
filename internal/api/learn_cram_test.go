package api

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"patchbay/internal/account"
)

// A cram session over HTTP goes through all that match by its cursor, records nothing by itself,
// and counts a review only as an early one.
func TestCramOverHTTP(t *testing.T) {
	r, s, _ := described(t)
	key := r.Key(t, account.NewKey{Scopes: []string{account.ScopeOperator}})
	send := func(method, path, body string) (int, string) {
		t.Helper()
		req := httptest.NewRequest(method, "/api/v1/learn/"+path, strings.NewReader(body))
		req.Header.Set("Authorization", "Bearer "+key)
		w := httptest.NewRecorder()
		s.ServeHTTP(w, req)
		return w.Code, w.Body.String()
	}
	field := func(text, name string) string {
		_, rest, _ := strings.Cut(text, `"`+name+`":"`)
		value, _, _ := strings.Cut(rest, `"`)
		return value
	}
	for _, q := range []string{"q1", "q2"} {
		if code, text := send("POST", "points", `{"question":"`+q+`","answer":"a","tags":["x"]}`); code != http.StatusOK {
			t.Fatalf("%d %s", code, text)
		}
	}
	code, first := send("GET", "next?cram=true&tag=x", "")
	if code != http.StatusOK || !strings.Contains(first, `"question":"q1"`) || !strings.Contains(first, `"total":2`) {
		t.Fatalf("%d %s", code, first)
	}
	at, point := field(first, "cursor"), field(first, "knowledge_point_id")
	if code, text := send("GET", "next?cram=true&tag=x&cursor="+at, ""); code != http.StatusOK ||
		!strings.Contains(text, `"question":"q2"`) {
		t.Fatalf("%d %s", code, text)
	}
	review := `{"knowledge_point_id":"` + point + `","grade":"good","tag":"x","cram":true,"cursor":"` + at + `"`
	if code, text := send("POST", "reviews", review+`}`); code != http.StatusBadRequest || !strings.Contains(text, "early") {
		t.Errorf("%d %s", code, text)
	}
	wrong := strings.Replace(review, `"cursor":"`, `"cursor":"x`, 1)
	if code, text := send("POST", "reviews", wrong+`,"early":true}`); code != http.StatusBadRequest {
		t.Errorf("%d %s", code, text)
	}
	if code, text := send("POST", "reviews", review+`,"early":true}`); code != http.StatusOK ||
		!strings.Contains(text, `"question":"q2"`) {
		t.Errorf("%d %s", code, text)
	}
	if code, text := send("GET", "next?cram=true&cursor=x", ""); code != http.StatusBadRequest {
		t.Errorf("%d %s", code, text)
	}
}
