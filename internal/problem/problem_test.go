package problem

import (
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"patchbay/internal/i18n"
)

var update = flag.Bool("update", false, "write the table of codes in docs/errors.md")

const msgFull = i18n.Message("The disk is full.")

func TestError(t *testing.T) {
	cause := errors.New("no space left on device")
	err := fmt.Errorf("save: %w", New(Unavailable, "%v Nothing was saved.", msgFull).Because(cause).RetryIn(time.Second))
	e, ok := errors.AsType[*Error](err)
	if !ok || e.Error() != "The disk is full. Nothing was saved." || e.RetryAfter() != time.Second {
		t.Fatalf("%v", err)
	}
	if !errors.Is(err, cause) || !Is(err, Unavailable) || Is(err, Invalid) || Is(cause, Invalid) {
		t.Errorf("%v is not what it should be", err)
	}
	if New(RateLimited, "wait").RetryAfter() != time.Minute || New(Invalid, "no").RetryAfter() != 0 {
		t.Error("after too many attempts one waits a minute, and else until something has changed")
	}
}

func TestWrap(t *testing.T) {
	if err := Wrap(Invalid, nil); err != nil {
		t.Errorf("nil became %v", err)
	}
	inner := i18n.Message("there is no language %q; there are %s").Errorf("xx", "en")
	err := Wrap(Invalid, inner)
	if err.Error() != inner.Error() || !errors.Is(err, inner) || !Is(err, Invalid) {
		t.Errorf("%v wraps %v", err, inner)
	}
}

func TestStatus(t *testing.T) {
	if got := Code("new").Status(); got != http.StatusInternalServerError {
		t.Errorf("an unknown code has status %d", got)
	}
	seen := map[Code]bool{}
	for _, c := range Codes {
		if seen[c.Code] || c.Code.Status() != c.Status || http.StatusText(c.Status) == "" {
			t.Errorf("%s has status %d", c.Code, c.Status)
		}
		seen[c.Code] = true
	}
}

const endOfCodes = "<!-- end of codes -->\n"

// codeTable returns the table of codes of a page of the manual, and what is before and after it.
func codeTable(t *testing.T, file, begin string) (before, table, after string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(text), begin)
	table, after, closed := strings.Cut(rest, endOfCodes)
	if !found || !closed {
		t.Fatalf("%s has no place for the table", file)
	}
	return before, table, after
}

// The manual in Chinese has the same codes with the same statuses.
func TestManualInChinese(t *testing.T) {
	_, table, _ := codeTable(t, "../../docs/errors.zh-CN.md", "<!-- codes: internal/problem checks them -->\n")
	rows := strings.Split(strings.TrimSpace(table), "\n")
	if len(rows) != 2+len(Codes) {
		t.Fatalf("docs/errors.zh-CN.md has %d rows of codes, want %d", len(rows)-2, len(Codes))
	}
	for i, c := range Codes {
		if want := fmt.Sprintf("| `%s` | %d | ", c.Code, c.Status); !strings.HasPrefix(rows[2+i], want) {
			t.Errorf("docs/errors.zh-CN.md has %q, want %q", rows[2+i], want)
		}
	}
}

// The manual has the table of codes. With -update it is written.
func TestManual(t *testing.T) {
	const file, begin = "../../docs/errors.md", "<!-- codes: written by go test ./internal/problem -update -->\n"
	var b strings.Builder
	b.WriteString(begin + "| code | status | meaning |\n|---|---|---|\n")
	for _, c := range Codes {
		fmt.Fprintf(&b, "| `%s` | %d | %s |\n", c.Code, c.Status, c.Meaning)
	}
	before, table, after := codeTable(t, file, begin)
	if begin+table == b.String() {
		return
	}
	if !*update {
		t.Fatal("docs/errors.md has another table of codes; write it with -update")
	}
	if err := os.WriteFile(file, []byte(before+b.String()+endOfCodes+after), 0o644); err != nil {
		t.Fatal(err)
	}
}
