package chat

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"patchbay/internal/console/page"
	"patchbay/internal/control"
)

// An update has the tools only when they have changed, and a tool whose end nobody saw has failed.
func TestToolsArePatchedOnChange(t *testing.T) {
	v := &page.Visit{Request: httptest.NewRequest(http.MethodGet, "/", nil)}
	a := &answer{ID: "1", Running: true, Tools: []usedTool{{Name: "look", Running: true, Began: time.Now().Add(-time.Minute)}},
		toolChanges: 1}
	update := func() string {
		var b strings.Builder
		if err := a.fresh(v).Render(t.Context(), &b); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	if text := update(); !strings.Contains(text, "#tools-1") {
		t.Errorf("the first update has no tools: %s", text)
	}
	a.Text = "More "
	if text := update(); strings.Contains(text, "#tools-1") || !strings.Contains(text, "More") {
		t.Errorf("nothing has changed, but the update is %s", text)
	}
	a.toolChanges++
	if text := update(); !strings.Contains(text, "#tools-1") {
		t.Errorf("a change is not in the update: %s", text)
	}
	a.setResult(nil, control.BotStatus{}, nil)
	if u := a.Tools[0]; u.Running || !u.Failed || u.Took < time.Minute {
		t.Errorf("a tool that had not ended: %+v", u)
	}
}
