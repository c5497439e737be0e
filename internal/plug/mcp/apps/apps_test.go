package apps

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"

	"patchbay/internal/i18n"
	_ "patchbay/internal/i18n/translations"
)

var used = regexp.MustCompile(`\bt\("([^"]+)"\)|^  t\("([^"]+)"\)`)

// Pages are small, load nothing, and every text in them is translated.
func TestPage(t *testing.T) {
	for view := range titles {
		html := Page(view, "</script><img src=x onerror=alert(1)>", map[string]string{"next": "</script>"})
		if len(html) > 20<<10 {
			t.Errorf("%s has %d bytes", view, len(html))
		}
		if strings.Count(html, "</script>") != 2 || strings.Contains(html, "<img") {
			t.Errorf("%s: a name ends its element", view)
		}
		for _, no := range []string{"http://", "https://", "innerHTML", "{{", "eval(", "import "} {
			if strings.Contains(html, no) {
				t.Errorf("%s has %s", view, no)
			}
		}
		for _, name := range []string{"bridge.js", string(view) + ".js"} {
			for _, m := range used.FindAllStringSubmatch(file(name), -1) {
				if text := i18n.Message(m[1] + m[2]); !slices.Contains(append(texts[view], commonTexts...), text) {
					t.Errorf("%s: %q is not a text of the page", name, text)
				}
			}
		}
		_, data, _ := strings.Cut(html, `id="config">`)
		data, _, _ = strings.Cut(data, "</script>")
		var c config
		if err := json.Unmarshal([]byte(data), &c); err != nil {
			t.Fatal(err)
		}
		for _, m := range append(texts[view], commonTexts...) {
			if c.Texts["zh"][m] == "" || c.Texts["zh"][m] == string(m) {
				t.Errorf("%s: %q is not translated", view, m)
			}
		}
	}
}

func TestOf(t *testing.T) {
	for _, c := range []struct{ provider, name, want string }{
		{"learn", "next_review", "learn next"}, {"learn", "list_decks", " "}, {"upstream", "next_review", " "},
		{"xiaozhi", "self.get_device_status", "board status"}, {"xiaozhi", "self.camera.take_photo", "camera photo"},
		{"xiaozhi", "say", " "}, {"xiaozhi", "", " "},
	} {
		if view, role := Of(c.provider, c.name); string(view)+" "+role != c.want {
			t.Errorf("Of(%q, %q) = %s %s", c.provider, c.name, view, role)
		}
	}
}
