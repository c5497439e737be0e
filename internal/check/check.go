// Package check has the report of patchbay doctor. Each package checks what is its own and adds
// its findings.
package check

import (
	"net/url"
	"strings"
	"time"
	"unicode"

	"patchbay/internal/i18n"
)

// State is the result of a check.
type State string

// The results of a check.
const (
	OK   State = "ok"
	Warn State = "warn" // works, but perhaps not as intended
	Fail State = "fail"
)

// Finding is one result of a check.
type Finding struct {
	Check  string `json:"check"`
	State  State  `json:"state"`
	Found  string `json:"found"`
	Advice string `json:"advice,omitempty"`
}

// Texts that several checks share.
const (
	NothingYet        = i18n.Message("there is nothing yet")
	Connected         = i18n.Message("is connected")
	ConnectionUnknown = i18n.Message("whether it is connected is known only while the server runs")

	// The flags of suggested commands are arguments, see [Report.Flags].
	AdviceBegin    = i18n.Message("Begin with: patchbay serve%[1]s, and open the address it prints in a browser; or patchbay user add NAME%[1]s")
	AdviceServe    = i18n.Message("Start it with: patchbay serve%s")
	AdviceStart    = i18n.Message("Start the server and look again.")
	AdviceOutside  = i18n.Message("Try it from outside; some routers do not lead back in.")
	AdviceLog      = i18n.Message("See the server's log.")
	AdviceSettings = i18n.Message("Change them with: patchbay bot set %d name=value%s")
	AdviceAsk      = i18n.Message("Ask it once more: patchbay ask %d \"hello\"%s")
)

// Report collects findings.
type Report struct {
	Lang i18n.Lang
	// Flags is appended to suggested commands, so that they use the same data: empty, or a space
	// and flags.
	Flags string
	// EnglishNames keeps the names of the checks in English, for programs.
	EnglishNames bool
	// Explain turns errors of the database, the disk or the network into messages; nil leaves them
	// as they are.
	Explain  func(error) error
	Findings []Finding
}

// OK adds that something is fine.
func (r *Report) OK(name, found i18n.Text) { r.add(name, OK, found.In(r.Lang), i18n.Text{}) }

// Warn adds that something may not work as intended.
func (r *Report) Warn(name, found, advice i18n.Text) { r.add(name, Warn, found.In(r.Lang), advice) }

// Fail adds that something does not work.
func (r *Report) Fail(name, found, advice i18n.Text) { r.add(name, Fail, found.In(r.Lang), advice) }

// Error adds that something does not work because of an error.
func (r *Report) Error(name i18n.Text, err error, advice i18n.Text) {
	r.add(name, Fail, i18n.Localize(r.Explained(err), r.Lang), advice)
}

func (r *Report) add(name i18n.Text, state State, found string, advice i18n.Text) {
	f := Finding{Check: name.In(r.Lang), State: state, Found: SingleLine(found)}
	if r.EnglishNames {
		f.Check = name.String()
	}
	if !advice.IsZero() {
		f.Advice = advice.In(r.Lang)
	}
	r.Findings = append(r.Findings, f)
}

// Failed reports whether something does not work.
func (r *Report) Failed() bool {
	for _, f := range r.Findings {
		if f.State == Fail {
			return true
		}
	}
	return false
}

// Explained returns an error as a message, without the wrapper that repeats method and URL.
func (r *Report) Explained(err error) error {
	if e, ok := err.(*url.Error); ok { //nolint:errorlint // only the wrapper of an http.Client
		err = e.Err
	}
	if r.Explain == nil {
		return err
	}
	return r.Explain(err)
}

// Verbatim is a text that is in the person's language already, or in none.
func Verbatim(text string) i18n.Text { return i18n.Message("%s").With(text) }

// Because joins a text and its cause, which may be empty.
func Because(told, cause string) i18n.Text {
	if cause == "" {
		return Verbatim(told)
	}
	return Verbatim(told + " (" + plain(cause) + ")")
}

// SingleLine joins the lines of a text.
func SingleLine(text string) string {
	return strings.Join(strings.FieldsFunc(text, func(r rune) bool { return r == '\n' || r == '\r' }), "; ")
}

// plain returns a text from outside on one line, without control characters of terminals.
func plain(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\t' {
			return -1
		}
		return r
	}, SingleLine(text))
}

// maxForeign is the maximum length of a text from outside, in characters.
const maxForeign = 60

// Foreign makes a short text from outside safe for a terminal.
func Foreign(text string) string {
	r := []rune(plain(strings.TrimSpace(text)))
	if len(r) > maxForeign {
		r = append(r[:maxForeign], '…')
	}
	if len(r) == 0 {
		return "?"
	}
	return string(r)
}

// Quote quotes a word of a suggested command for a shell if necessary.
func Quote(word string) string {
	if !strings.ContainsFunc(word, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("/._-+:", r)
	}) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// Time formats a time in the local time zone.
func Time(t time.Time) string { return t.Local().Format("2006-01-02 15:04") }

// Duration formats a duration briefly.
func Duration(d time.Duration) string {
	switch {
	case d < time.Millisecond:
		return d.Round(10 * time.Microsecond).String()
	case d < time.Second:
		return d.Round(100 * time.Microsecond).String()
	}
	return d.Round(10 * time.Millisecond).String()
}
