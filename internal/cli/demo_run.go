package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"patchbay/internal/api"
	"patchbay/internal/app"
	"patchbay/internal/config"
	"patchbay/internal/control"
	"patchbay/internal/i18n"
)

// demoRun holds the server of the demo and what its steps share.
type demoRun struct {
	demoOutput
	folder  string
	url     string      // of the server
	at      *api.Client // with a key of ada's
	person  control.Person
	key     string // for glasses
	model   *demoModel
	kitchen *demoKitchen
	speech  *demoSpeech
	learner learner
	stops   []func() error
	answers []answered // answers of this step
	voice   *spoken    // what was spoken in this step
	note    string     // additional result of the step
}

// answered is a question of the glasses with the answer.
type answered struct {
	Question string   `json:"question"`
	Answer   string   `json:"answer"`
	Commands []string `json:"commands,omitempty"`
	First    float64  `json:"first_ms"` // time to the first piece, in milliseconds
	Total    float64  `json:"total_ms"`
	Pieces   int      `json:"pieces"`
}

// close stops everything that was started, in reverse order.
func (st *demoRun) close() (err error) {
	for i := len(st.stops) - 1; i >= 0; i-- {
		err = errors.Join(err, st.stops[i]())
	}
	return err
}

// runInBackground runs a participant until the demo is closed. Its error matters only if it ends
// before.
func (st *demoRun) runInBackground(ctx context.Context, run func(context.Context) error) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- run(ctx) }()
	st.stops = append(st.stops, func() error {
		cancel()
		err := <-done
		if errors.Is(err, context.Canceled) {
			return nil
		}
		return err
	})
}

// playServe starts the server, and creates the account that owns everything.
func playServe(ctx context.Context, st *demoRun) error {
	c, _, err := config.Load(config.Sources{Flags: map[string]string{
		"data": st.folder, "listen": "127.0.0.1:0", "lang": string(st.sh.lang), "lingzhu.push_url": "",
		"xiaozhi.mqtt": "127.0.0.1:0", "xiaozhi.audio": "127.0.0.1:0", "xiaozhi.transport": "mqtt",
	}})
	if err != nil {
		return err
	}
	begin := time.Now()
	ready, failed := make(chan struct{}), make(chan error, 1)
	st.runInBackground(context.WithoutCancel(ctx), func(ctx context.Context) error {
		err := app.Serve(ctx, c, app.Options{Version: thisBuild().Version, Logs: io.Discard,
			Ready: func(url string, _ *app.Base) {
				st.url = url
				close(ready)
			}})
		failed <- err
		return err
	})
	select {
	case <-ready:
	case err := <-failed:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
	st.note = msgReadyAfter.In(st.sh.lang, st.url, took(time.Since(begin)))
	return st.openAccount(ctx, c)
}

// openAccount opens the account that owns everything, with a key for glasses and one for the demo.
func (st *demoRun) openAccount(ctx context.Context, c *config.Config) error {
	machine, err := app.ConnectRunning(ctx, c, st.sh.lang)
	if err != nil {
		return err
	}
	p, err := api.AddPerson.Call(ctx, machine, control.NewPerson{Name: "ada", Role: "admin", Lang: string(st.sh.lang),
		NoPassword: true})
	if err != nil {
		return err
	}
	st.person.Person = p.Person
	k, err := api.AddKey.Call(ctx, machine, control.NewKey{User: p.Name, Name: "demo", Scopes: []string{"admin"}})
	if err != nil {
		return err
	}
	st.at = api.NewClient(st.url, k.Secret, st.sh.lang)
	st.key, err = st.newKey(ctx, "glasses", "lingzhu")
	return err
}

// newKey creates a key of ada's.
func (st *demoRun) newKey(ctx context.Context, name string, scopes ...string) (string, error) {
	k, err := api.AddKey.Call(ctx, st.at, control.NewKey{Name: name, Scopes: scopes})
	return k.Secret, err
}

// await calls look repeatedly until it returns true.
func await(ctx context.Context, what string, look func() (bool, error)) error {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		seen, err := look()
		if err != nil || seen {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return errors.New(what)
		}
	}
}

const msgReadyAfter = i18n.Message("%s, ready after %s")

// bot adds a bot.
func (st *demoRun) bot(ctx context.Context, name i18n.Message, kind string,
	set map[string]string) (control.AddedBot, error) {
	return api.AddBot.Call(ctx, st.at, control.NewBot{Name: name.In(st.sh.lang), Kind: kind, Settings: set})
}

// find returns a bot by its name.
func (st *demoRun) find(ctx context.Context, name i18n.Message) (control.BotView, error) {
	return api.Bot.Call(ctx, st.at, control.BotRef{Bot: name.In(st.sh.lang)})
}

// expect returns an error unless the answer contains every one of want.
func (a answered) expect(want ...string) error {
	for _, w := range want {
		if !strings.Contains(a.Answer, w) {
			return fmt.Errorf("the answer to %q lacks %q; it is %q", a.Question, w, a.Answer)
		}
	}
	return nil
}

// exactly returns an error unless the answer is want and came in at least pieces pieces.
func (a answered) exactly(want string, pieces int) error {
	switch {
	case a.Answer != want:
		return fmt.Errorf("the answer to %q is %q, not %q", a.Question, a.Answer, want)
	case a.Pieces < pieces:
		return fmt.Errorf("the answer to %q came in %d pieces, not in %d or more", a.Question, a.Pieces, pieces)
	}
	return nil
}

// commanded returns an error unless the answer has exactly one command, with a name.
func (a answered) commanded(name string) error {
	if len(a.Commands) != 1 || a.Commands[0] != name {
		return fmt.Errorf("after %q the glasses were told to do %q, not %s", a.Question, a.Commands, name)
	}
	return nil
}

const (
	msgFigures     = i18n.Message("first piece after %s, %d pieces")
	msgFiguresMany = i18n.Message("%d answers, slowest first piece after %s, %d pieces in total")
)

// summary returns the figures of a step.
func (st *demoRun) summary() string {
	var slowest float64
	pieces := 0
	for _, a := range st.answers {
		slowest = max(slowest, a.First)
		pieces += a.Pieces
	}
	first := took(time.Duration(slowest * float64(time.Millisecond)))
	var parts []string
	switch len(st.answers) {
	case 0:
	case 1:
		parts = append(parts, msgFigures.In(st.sh.lang, first, pieces))
	default:
		parts = append(parts, msgFiguresMany.In(st.sh.lang, len(st.answers), first, pieces))
	}
	if st.note != "" {
		parts = append(parts, st.note)
	}
	return strings.Join(parts, i18n.Message("; ").In(st.sh.lang))
}
