package toolresult_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"patchbay/internal/console/page"
	"patchbay/internal/console/toolresult"
	"patchbay/internal/i18n"
	"patchbay/internal/tool"
)

func content(blocks string) *tool.Result { return &tool.Result{Content: json.RawMessage(blocks)} }

func TestShow(t *testing.T) {
	for _, c := range []struct {
		r         *tool.Result
		has, lack string
	}{
		{tool.Text("a <b>"), `<p class="words">a &lt;b&gt;</p>`, "<b>"},
		{tool.JSON(map[string]int{"a": 1}), "{\n  &#34;a&#34;: 1\n}", "words"},
		{&tool.Result{Content: tool.Text("One.").Content, Structured: json.RawMessage(`{"n":1}`)}, "&#34;n&#34;: 1",
			""},
		{tool.Picture("image/jpeg", []byte("\xff\xd8")), `src="data:image/jpeg;base64,/9g="`, "audio"},
		{tool.Picture("image/svg+xml", []byte("<svg/>")), "Not to be shown here: image/svg+xml", "<img"},
		{tool.Picture(`image/png"onerror=`, []byte("x")), "Not to be shown", "<img"},
		{content(`[{"type":"image","mimeType":"image/png","data":"no base64!"}]`), "Not to be shown", "<img"},
		{content(`[{"type":"audio","mimeType":"audio/ogg; codecs=opus","data":"T2dnUw=="}]`),
			`<audio controls preload="metadata" src="data:audio/ogg;base64,T2dnUw=="`, ""},
		{content(`[{"type":"resource_link","uri":"https://a.example/x","name":"x"}]`),
			`<a href="https://a.example/x" rel="noopener noreferrer"`, ""},
		{content(`[{"type":"resource_link","uri":"javascript:alert(1)","name":"x"}]`), "Not to be shown here: x",
			"href"},
		{content(`[{"type":"resource","resource":{"uri":"a:b","text":"inside"}}]`), "inside", ""},
		{content(`[{"type":"new"},{"type":"resource"}]`), "Not to be shown here: new", ""},
		{content(`[]`), "nothing to say", ""},
		{&tool.Result{}, "nothing to say", ""},
		{content(`{`), "nothing to say", ""},
		{tool.ErrorResult("no paper"), `role="alert"`, ""},
	} {
		var b bytes.Buffer
		if err := toolresult.Show(&page.Visit{Lang: i18n.English}, c.r, false).Render(t.Context(), &b); err != nil {
			t.Fatal(err)
		}
		if text := b.String(); !strings.Contains(text, c.has) || c.lack != "" && strings.Contains(text, c.lack) {
			t.Errorf("%s is shown as %s", c.r.Content, text)
		}
	}
}

// Every reason has its own text, in both languages.
func TestFailure(t *testing.T) {
	said := map[string]tool.Code{}
	for _, code := range []tool.Code{
		tool.Unknown, tool.BadArgs, tool.Denied, tool.Held,
		tool.RateLimited, tool.Busy, tool.Offline, tool.Lost, tool.TimedOut,
		tool.Cancelled,
		tool.Garbled, tool.TooLarge, tool.Refused, tool.Failed,
	} {
		for _, l := range []i18n.Lang{i18n.English, i18n.Chinese} {
			words := toolresult.ErrorText(l, tool.Fail(code, "told", nil))
			if other, twice := said[words]; twice || words == "" {
				t.Errorf("%s is told as %s: %q", code, other, words)
			}
			said[words] = code
		}
	}
	var b bytes.Buffer
	odd := tool.Fail("odd", "The <lamp> is odd.", nil)
	if err := toolresult.Failure(&page.Visit{Lang: i18n.English}, odd).Render(t.Context(), &b); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(b.String(), "The tool failed.") || !strings.Contains(b.String(), "The &lt;lamp&gt; is odd.") {
		t.Errorf("trouble is shown as %s", b.String())
	}
}
