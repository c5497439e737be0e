package ankiconnect

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestManual compares the tables of actions in the manual with the actions.
func TestManual(t *testing.T) {
	done, refused := Names()
	for file, heads := range map[string][3]string{
		"anki.md":       {"\n## Actions\n", "\n## Actions that are refused\n", "\n## Differences\n"},
		"anki.zh-CN.md": {"\n## 操作\n", "\n## 拒绝的操作\n", "\n## 区别\n"},
	} {
		text, err := os.ReadFile("../../../../docs/" + file)
		if err != nil {
			t.Fatal(err)
		}
		for i, want := range [][]string{done, refused} {
			_, rest, _ := strings.Cut(string(text), heads[i])
			part, _, _ := strings.Cut(rest, heads[i+1])
			var names []string
			for line := range strings.Lines(part) {
				if strings.HasPrefix(line, "| ") {
					for _, m := range regexp.MustCompile("`([a-zA-Z]+)`").FindAllStringSubmatch(line, -1) {
						names = append(names, m[1])
					}
				}
			}
			slices.Sort(names)
			if !slices.Equal(names, want) {
				t.Errorf("%s,%s: %v\nwant %v", file, strings.TrimSpace(heads[i]), names, want)
			}
		}
	}
}
