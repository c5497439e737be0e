package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"patchbay/internal/app"
	"patchbay/internal/i18n"
	"patchbay/internal/plug/rokid/sim"
	"patchbay/internal/talk"
)

type simulateGlassesCmd struct {
	Text      string `arg:"" optional:"" help:"What the wearer says; default: each line of standard input is a turn."`
	URL       string `name:"url" help:"URL of the agent; default: the server on the data folder, or http://127.0.0.1:3000." placeholder:"URL"`
	Key       string `help:"The agent's AK: a key with scope lingzhu." placeholder:"KEY"`
	UserID    string `name:"user-id" help:"The wearer's id at the platform; default: a new one." placeholder:"ID"`
	AgentID   string `name:"agent-id" help:"The agent's id at the platform, or the number of a bot; default: a generated id." placeholder:"ID"`
	Lang      string `help:"Language that the glasses report; default: zh-CN." placeholder:"TAG" default:"zh-CN"`
	Image     string `help:"Picture to send when a photo is requested; default: a lake at sunset." placeholder:"FILE"`
	Save      string `help:"Folder to which sent photos are saved." placeholder:"DIR"`
	Verbose   bool   `short:"v" help:"Also show every event as received, and timings."`
	dataFlags `embed:""`
}

// Help returns the command's detailed help with examples.
func (simulateGlassesCmd) Help() string {
	return `Requests are the same as those of the real platform, and answers are validated against its protocol: violations are reported, and the exit code is 1. In a session, /photo FILE sends a photo, /new leaves the agent and opens it again, /quit ends.

Examples:

    patchbay simulate glasses --key $KEY --agent-id 1 "你好"
    patchbay simulate glasses --url https://board.example.org/sse/rokid --key $KEY -v
    patchbay simulate glasses --key $KEY --image qr.png "hello"`
}

// lingzhuPath is the path of the endpoint for glasses.
const lingzhuPath = "/sse/rokid"

// Run sends one question, or one per line of input.
func (c *simulateGlassesCmd) Run(ctx context.Context, sh *shell) error {
	address, err := c.address(sh)
	if err != nil {
		return err
	}
	w := &glassesSession{sh: sh, cmd: c, Glasses: sim.New(sim.Options{URL: address, Key: c.Key, UserID: c.UserID,
		AgentID: c.AgentID, Lang: c.Lang})}
	defer w.Close()
	if c.Text != "" {
		err = w.say(ctx, c.Text)
	} else {
		err = w.session(ctx)
	}
	if err == nil && w.violations > 0 {
		err = i18n.Message("the answers violate the platform's protocol in %d ways, see above").Errorf(w.violations)
	}
	return err
}

// address returns the URL that the glasses use.
func (c *simulateGlassesCmd) address(sh *shell) (string, error) {
	return c.serverAddress(sh, c.URL, lingzhuPath)
}

// serverAddress returns the URL by which a simulated device reaches the server: the given one, or
// that of the server that runs on the data directory. It appends path to a URL without one.
func (d dataFlags) serverAddress(sh *shell, given, path string) (string, error) {
	address := given
	if address == "" {
		address = "http://127.0.0.1:3000"
		settings, err := d.load(sh)
		if err != nil {
			return "", err
		}
		if at, err := app.FindRunning(settings.Data); err == nil {
			address = at.URL
		}
	}
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return "", usage(i18n.Message("--url must have the form https://board.example.org"))
	}
	if u.Path == "" || u.Path == "/" {
		u.Path = path
	}
	return u.String(), nil
}

// glassesSession is a user with simulated glasses.
type glassesSession struct {
	*sim.Glasses
	sh         *shell
	cmd        *simulateGlassesCmd
	violations int
	photos     int // number of photos sent
}

const (
	msgPrompt  = i18n.Message("› ")
	msgSession = i18n.Message("Wearer %s, agent %s. Each line is a turn; /photo FILE, /new, /quit.")
	msgFigure  = i18n.Message("  first piece after %s, end after %s, %d pieces, %d comments")
	msgBroken  = i18n.Message("protocol violation: %s")
	msgCamera  = i18n.Message("Photo file (empty: a generated photo): ")
)

// session reads what the wearer says from standard input.
func (w *glassesSession) session(ctx context.Context) error {
	_, live := terminal(w.sh.stdin)
	if live {
		fmt.Fprintln(w.sh.stderr, msgSession.In(w.sh.lang, w.UserID, w.AgentID))
	}
	for ctx.Err() == nil {
		if live {
			fmt.Fprint(w.sh.stderr, msgPrompt.In(w.sh.lang))
		}
		line, err := w.sh.readLine(ctx)
		if errors.Is(err, io.EOF) || err == nil && strings.TrimSpace(line) == "/quit" {
			return nil
		}
		if err != nil {
			return err
		}
		if err := w.do(ctx, strings.TrimSpace(line)); err != nil {
			if !live || ctx.Err() != nil {
				return err
			}
			w.sh.fail(err) // and continue
		}
	}
	return ctx.Err()
}

// do runs one line of input.
func (w *glassesSession) do(ctx context.Context, line string) error {
	file, isPhoto := strings.CutPrefix(line, "/photo")
	switch {
	case line == "":
		return nil
	case line == "/new":
		w.NewSession()
		return nil
	case isPhoto:
		photo, err := w.picture(strings.TrimSpace(file))
		if err != nil {
			return err
		}
		return w.show(ctx, photo, maxPhotos)
	}
	return w.say(ctx, line)
}

// maxPhotos limits how many photos in a row a bot can request.
const maxPhotos = 3

func (w *glassesSession) say(ctx context.Context, text string) error {
	show := &answer{sh: w.sh}
	a, err := w.Ask(ctx, text, w.eventHandler(show))
	show.end()
	return w.reportAnswer(ctx, text, a, err, maxPhotos)
}

func (w *glassesSession) show(ctx context.Context, photo []byte, more int) error {
	show := &answer{sh: w.sh}
	a, err := w.Photo(ctx, photo, w.eventHandler(show))
	show.end()
	return w.reportAnswer(ctx, "", a, err, more-1)
}

// eventHandler returns a function that prints the events of an answer as they arrive.
func (w *glassesSession) eventHandler(show *answer) func(sim.Event) {
	return func(e sim.Event) {
		if w.sh.json {
			return
		}
		if w.cmd.Verbose {
			show.end()
			w.sh.printf("  %8s  %s %s\n", took(e.At), e.Name, e.Data)
			return
		}
		show.words(e.Text)
		if e.Command != nil {
			show.event(talk.DoCommand(*e.Command))
		}
		if len(e.FollowUp) > 0 {
			show.event(talk.Suggest(e.FollowUp...))
		}
	}
}

// turnReport is a turn in the JSON output.
type turnReport struct {
	Said       string         `json:"said,omitempty"` // empty for a photo
	Text       string         `json:"text"`
	Commands   []talk.Command `json:"commands,omitempty"`
	FollowUp   []string       `json:"follow_up,omitempty"`
	Error      string         `json:"error,omitempty"`
	First      float64        `json:"first_ms"`
	Total      float64        `json:"total_ms"`
	Pieces     int            `json:"pieces"`
	Comments   int            `json:"comments"`
	Violations []string       `json:"violations,omitempty"`
	MessageID  string         `json:"message_id"`
	UserID     string         `json:"user_id"`
	AgentID    string         `json:"agent_id"`
}

// reportAnswer prints an answer, and takes a photo if the bot requests one.
func (w *glassesSession) reportAnswer(ctx context.Context, said string, a sim.Answer, err error, photos int) error {
	if err != nil {
		return noServer(w.URL, err)
	}
	if w.sh.json {
		err := w.sh.writeJSON(turnReport{
			Said: said, Text: a.Text, Commands: a.Commands, FollowUp: a.FollowUp, Error: a.Err, First: millis(a.First),
			Total:  millis(a.Total),
			Pieces: a.Pieces, Comments: a.Comments, Violations: a.Violations, MessageID: w.MessageID(),
			UserID: w.UserID, AgentID: w.AgentID,
		}, "")
		if err != nil {
			return err
		}
	}
	if w.cmd.Verbose && !w.sh.json {
		w.sh.say(msgFigure, took(a.First), took(a.Total), a.Pieces, a.Comments)
	}
	for _, v := range a.Violations {
		fmt.Fprintln(w.sh.stderr, msgBroken.In(w.sh.lang, v))
	}
	w.violations += len(a.Violations)
	if a.Err != "" {
		return i18n.Message("the server rejected the request: %s").Errorf(a.Err)
	}
	for _, c := range a.Commands {
		if c.Name == talk.CommandTakePhoto {
			return w.takePhoto(ctx, photos)
		}
	}
	return nil
}

// takePhoto takes and sends the photo that a bot has requested.
func (w *glassesSession) takePhoto(ctx context.Context, photos int) error {
	if photos <= 0 {
		return i18n.Message("the bot requests too many photos").Errorf()
	}
	file := w.cmd.Image
	if _, live := terminal(w.sh.stdin); file == "" && live && w.cmd.Text == "" {
		fmt.Fprint(w.sh.stderr, msgCamera.In(w.sh.lang))
		var err error
		if file, err = w.sh.readLine(ctx); err != nil {
			return err
		}
	}
	photo, err := w.picture(strings.TrimSpace(file))
	if err != nil {
		return err
	}
	return w.show(ctx, photo, photos)
}

// picture returns what the camera sees: a file, or a generated picture.
func (w *glassesSession) picture(file string) (photo []byte, err error) {
	if file == "" {
		photo = samplePhoto()
	} else if photo, err = readPicture(file); err != nil {
		return nil, err
	}
	if w.cmd.Save == "" {
		return photo, nil
	}
	w.photos++
	name := fmt.Sprintf("photo-%s-%d%s", time.Now().Format("20060102-150405"), w.photos, extension(file))
	return photo, os.WriteFile(filepath.Join(w.cmd.Save, name), photo, 0o600)
}

func extension(file string) string {
	if e := filepath.Ext(file); e != "" {
		return e
	}
	return ".png"
}
