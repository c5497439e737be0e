package ankiconnect

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"patchbay/internal/store"
	"patchbay/internal/store/storetest"
)

var update = flag.Bool("update", false, "write testdata/actions.txt")

// unstable matches numbers of decks, which differ each time.
var unstable = regexp.MustCompile(`\b[345]\d{15}\b`)

// TestGolden does what testdata/actions.txt asks for, in its order, and compares the answers. A
// line that begins with ">" is an action with its parameters, the next line the answer; "+" lets
// minutes pass. {last} stands for the result of the last action that gave a number.
func TestGolden(t *testing.T) {
	const file = "testdata/actions.txt"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	asked := map[string]bool{}
	storetest.Each(t, func(t *testing.T, o store.Options) {
		r := newRig(t, o)
		var out bytes.Buffer
		last := ""
		lines := strings.Split(strings.TrimRight(string(text), "\n"), "\n")
		for i := 0; i < len(lines); i++ {
			line := lines[i]
			if line == "" || line[0] == '#' {
				fmt.Fprintln(&out, line)
				continue
			}
			if line[0] == '<' {
				continue
			}
			fmt.Fprintln(&out, line)
			if minutes, ok := strings.CutPrefix(line, "+ "); ok {
				var n int
				if _, err := fmt.Sscan(minutes, &n); err != nil {
					t.Fatal(line)
				}
				r.pass(time.Duration(n) * time.Minute)
				continue
			}
			action, params, _ := strings.Cut(strings.TrimPrefix(line, "> "), " ")
			asked[action] = true
			answer := r.invoke(action, strings.ReplaceAll(params, "{last}", last))
			var number struct {
				Result json.Number `json:"result"`
			}
			if json.Unmarshal([]byte(answer), &number) == nil && number.Result != "" {
				last = number.Result.String()
			}
			answer = unstable.ReplaceAllString(answer, "DECK")
			fmt.Fprintln(&out, "< "+answer)
			if i+1 < len(lines) && strings.HasPrefix(lines[i+1], "< ") {
				if want := strings.TrimPrefix(lines[i+1], "< "); want != answer && !*update {
					t.Errorf("line %d: %s\n got %s\nwant %s", i+1, line, answer, want)
				}
			} else if !*update {
				t.Errorf("line %d has no answer", i+1)
			}
		}
		if *update {
			if err := os.WriteFile(file, out.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	})
	done, refused := Names()
	for _, name := range slices.Concat(done, refused) {
		if !asked[name] {
			t.Errorf("%s is not in %s", name, file)
		}
	}
}
