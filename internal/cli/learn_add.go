package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"

	"patchbay/internal/i18n"
)

type learnAddCmd struct {
	Question   string   `arg:"" optional:"" help:"The question."`
	Answer     string   `arg:"" optional:"" help:"The answer, optionally in Markdown."`
	Deck       string   `help:"Deck; created if it does not exist." placeholder:"DECK"`
	Tag        []string `help:"A tag. Repeatable." placeholder:"TAG"`
	Draft      bool     `help:"Add it as a draft, which is not reviewed until learn edit --confirm."`
	NoPlan     bool     `help:"Exclude it from reviews."`
	File       string   `help:"Add a knowledge point per line of a file (- is standard input): question, tab, answer." placeholder:"FILE"`
	learnFlags `embed:""`
}

// Help returns the command's detailed help with examples.
func (learnAddCmd) Help() string {
	return `A new knowledge point is due immediately. For other file formats, use: patchbay learn import

Examples:

    patchbay learn add "Capital of France?" "Paris" --deck Geography --tag europe
    patchbay learn add "SN1 or SN2 for tert-butyl bromide?" "**SN1**: the carbocation is stable" --draft
    printf 'der Hund\tthe dog\ndie Katze\tthe cat\n' | patchbay learn add --file - --deck German`
}

const (
	msgLearnAdded  = i18n.Message("Added (%s): %s")
	msgLearnAddedN = i18n.Message("Added: %d, skipped: %d.")
)

// Run adds the points.
func (c *learnAddCmd) Run(ctx context.Context, sh *shell) error {
	switch {
	case c.File != "" && c.Question != "":
		return usage(i18n.Message("give a question with its answer, or --file, not both"))
	case c.File != "" && c.NoPlan:
		return usage(i18n.Message("--no-plan can only be used with a single knowledge point"))
	case c.File == "" && (c.Question == "" || c.Answer == ""):
		return usage(i18n.Message("give a question and its answer, both in quotes, or use --file"))
	}
	return c.open(ctx, sh, func(l learnCaller) error {
		if c.File != "" {
			return c.addLines(ctx, sh, l)
		}
		args := c.args(c.Question, c.Answer)
		if c.Draft {
			args["draft"] = true
		}
		if c.NoPlan {
			args["is_in_review_plan"] = false
		}
		var row json.RawMessage
		if err := l.call(ctx, "create_knowledge_point", args, &row); err != nil {
			return err
		}
		var p learnPoint
		if err := json.Unmarshal(row, &p); err != nil {
			return err
		}
		return sh.result(row, func() { sh.say(msgLearnAdded, learnShort(p.ID), learnHeading(p.Question)) })
	})
}

func (c *learnAddCmd) args(question, answer string) map[string]any {
	args := map[string]any{"question": question, "answer": answer}
	if c.Deck != "" {
		args["deck"] = c.Deck
	}
	if len(c.Tag) > 0 {
		args["tags"] = c.Tag
	}
	return args
}

// learnAdded is the result of adding many lines.
type learnAdded struct {
	Created []string    `json:"created"`
	Errors  []learnLine `json:"errors"`
}

// learnLine is an invalid line with its error.
type learnLine struct {
	Line  int    `json:"line"`
	Error string `json:"error"`
}

const (
	// learnAtOnce is how many points a tool accepts at once.
	learnAtOnce = 50
	// maxPair is the maximum length of a line with a question and its answer, in bytes.
	maxPair = 256 << 10
)

// addLines adds the lines of a file.
func (c *learnAddCmd) addLines(ctx context.Context, sh *shell, l learnCaller) error {
	in := sh.stdin
	if c.File != "-" {
		f, err := os.Open(c.File)
		if err != nil {
			return err
		}
		defer f.Close()
		in = f
	}
	out := learnAdded{Created: []string{}, Errors: []learnLine{}}
	err := c.eachPack(ctx, l, in, &out)
	shown := sh.result(out, func() { sh.say(msgLearnAddedN, len(out.Created), len(out.Errors)) })
	for _, bad := range out.Errors {
		fmt.Fprintf(sh.stderr, "line %d: %s\n", bad.Line, plain(bad.Error))
	}
	switch {
	case err != nil:
		return err
	case shown != nil:
		return shown
	case len(out.Created) == 0 && len(out.Errors) > 0:
		return errReported
	case len(out.Created) == 0:
		return i18n.Message("there are no lines to add").Errorf()
	}
	return nil
}

// eachPack reads lines and adds them in batches of the maximum size.
func (c *learnAddCmd) eachPack(ctx context.Context, l learnCaller, in io.Reader, out *learnAdded) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, maxPair)
	var pack []map[string]any
	var at []int // line numbers
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimPrefix(lines.Text(), "\ufeff")
		if strings.TrimSpace(line) == "" {
			continue
		}
		question, answer, ok := strings.Cut(line, "\t")
		if !ok {
			out.Errors = append(out.Errors, learnLine{n, "there is no tab between question and answer"})
			continue
		}
		pack, at = append(pack, c.args(question, answer)), append(at, n)
		if len(pack) == learnAtOnce {
			if err := c.addPack(ctx, l, pack, at, out); err != nil {
				return err
			}
			pack, at = nil, nil
		}
	}
	if err := lines.Err(); err != nil {
		return i18n.Message("read the lines: %v").Errorf(err)
	}
	if len(pack) == 0 {
		return nil
	}
	return c.addPack(ctx, l, pack, at, out)
}

func (c *learnAddCmd) addPack(ctx context.Context, l learnCaller, pack []map[string]any, at []int,
	out *learnAdded) error {
	var made struct {
		Created []string `json:"created"`
		Errors  []struct {
			Index int    `json:"index"`
			Error string `json:"error"`
		} `json:"errors"`
	}
	err := l.call(ctx, "create_knowledge_points", map[string]any{"points": pack, "draft": c.Draft}, &made)
	if t := asLearnError(err); t != nil && json.Unmarshal(t.structured, &made) == nil && len(made.Errors) > 0 {
		err = nil // all of them are invalid, each with its own error
	}
	for _, bad := range made.Errors {
		if bad.Index >= 0 && bad.Index < len(at) {
			out.Errors = append(out.Errors, learnLine{at[bad.Index], bad.Error})
		}
	}
	out.Created = append(out.Created, made.Created...)
	return err
}
