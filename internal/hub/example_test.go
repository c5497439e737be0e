package hub_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"patchbay/internal/account"
	"patchbay/internal/bus"
	"patchbay/internal/hub"
	"patchbay/internal/i18n"
	"patchbay/internal/seal"
	"patchbay/internal/store"
	"patchbay/internal/talk"
	"patchbay/internal/tool"
)

// exampleHub is a hub on a fresh database, with one person.
type exampleHub struct {
	*hub.Hub
	person store.Person
}

// newExampleHub returns a hub that knows the given kinds of bots. The caller calls close.
func newExampleHub(kinds ...hub.Kind) (_ *exampleHub, close func(), err error) {
	folder, err := os.MkdirTemp("", "patchbay-example-")
	if err != nil {
		return nil, nil, err
	}
	db, err := store.Open(context.Background(), store.Options{Folder: folder})
	if err != nil {
		return nil, nil, errors.Join(err, os.RemoveAll(folder))
	}
	box, err := seal.New("an example needs no secret that nobody knows")
	if err != nil {
		return nil, nil, err
	}
	local, err := bus.Open(context.Background(), bus.Options{}) // in the process
	if err != nil {
		return nil, nil, err
	}
	h, err := hub.New(hub.Options{
		Store: db, Registry: hub.NewRegistry(db, box, kinds), Bus: local,
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil)), Registerer: prometheus.NewRegistry(),
	})
	if err != nil {
		return nil, nil, err
	}
	ada, err := account.New(db, box, nil).AddPerson(context.Background(), "ada", account.RoleAdmin, "en", "")
	return &exampleHub{h, ada}, func() {
		h.Close()
		local.Close()
		db.Close()
		os.RemoveAll(folder)
	}, err
}

// diceBot answers with a number from 1 to Sides. It implements talk.Bot.
type diceBot struct{ sides int }

func (d diceBot) Answer(_ context.Context, _ *talk.Turn, emit talk.Emit) error {
	if err := emit(talk.Text("You rolled ")); err != nil {
		return err // the asker has left
	}
	return emit(talk.Text(fmt.Sprint(d.sides, "."))) // loaded, for the sake of the example
}

// diceSettings are the settings of a dice bot, as the owner writes them.
type diceSettings struct {
	Sides int `json:"sides"`
}

// Validate implements the optional method of settings.
func (s *diceSettings) Validate() error {
	if s.Sides < 2 {
		return errors.New("sides: at least 2")
	}
	return nil
}

// diceKind describes the kind of bot to the hub.
var diceKind = hub.Kind{
	Name:     "dice",
	Settings: func() any { return &diceSettings{Sides: 6} },
	Build: func(_ store.Bot, settings any) (talk.Bot, error) {
		return diceBot{settings.(*diceSettings).Sides}, nil
	},
}

// A kind of bot that the hub creates from its settings for each question.
func ExampleKind() {
	ctx := context.Background()
	h, close, err := newExampleHub(diceKind)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer close()

	bot, _, err := h.Registry.Add(ctx, hub.NewBot{
		Name: "dice", Kind: "dice", Owner: h.person.ID,
		Set: map[string]string{"sides": "20"},
	})
	if err != nil {
		fmt.Println(err)
		return
	}

	turn := &talk.Turn{Bot: bot.Number, Channel: "api", Lang: i18n.English,
		Parts: []talk.Part{{Text: "Roll the dice."}}}
	err = h.Answer(ctx, turn, func(e talk.Event) error {
		fmt.Print(e.Text)
		return nil
	})
	fmt.Println(err)
	// Output: You rolled 20.<nil>
}

// A bot that connects to this instance, like a plugin.
func ExampleHub_AttachBot() {
	ctx := context.Background()
	h, close, err := newExampleHub(hub.Kind{Name: "dialing", Inbound: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer close()

	bot, token, err := h.Registry.Add(ctx, hub.NewBot{Name: "plugin", Kind: "dialing", Owner: h.person.ID})
	if err != nil {
		fmt.Println(err)
		return
	}
	known, err := h.Registry.ByToken(ctx, token) // the token that the plugin presents
	fmt.Println(known.Number == bot.Number, err)

	detach := h.AttachBot(bot.Number, diceBot{6}, hub.Limits{})
	fmt.Println(h.IsOnline(bot.Number))
	detach() // at the end of the connection
	fmt.Println(h.IsOnline(bot.Number))
	// Output:
	// true <nil>
	// true
	// false
}

// lamp offers one tool. It implements tool.Provider.
type lamp struct{ on bool }

func (l *lamp) Call(_ context.Context, c *tool.Call) (*tool.Result, error) {
	var args struct {
		On bool `json:"on"`
	}
	if err := json.Unmarshal(c.Args, &args); err != nil {
		return nil, err
	}
	l.on = args.On
	return tool.Text(fmt.Sprint("the lamp is on: ", l.on)), nil
}

// A provider of tools, and a call of one of them.
func ExampleHub_Register() {
	ctx := context.Background()
	h, close, err := newExampleHub()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer close()

	registration, err := h.Register(hub.ProviderRef{ID: "lamp:1", Owner: h.person.ID, Slug: "lamp", Kind: "lamp",
		Title: "Lamp", Timeout: 5 * time.Second}, new(lamp))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer registration.Unregister()
	registration.SetTools([]tool.Tool{{Name: "switch", Description: "Switches the lamp on or off.",
		Input: json.RawMessage(`{"type":"object","properties":{"on":{"type":"boolean"}},"required":["on"]}`)}})

	ada := hub.Access{Caller: tool.Caller{Person: h.person.ID, Channel: "api"}}
	result, err := h.Call(ctx, ada, "lamp_switch", &tool.Call{Args: json.RawMessage(`{"on":true}`)})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(result.PlainText())

	// The arguments are validated before the provider is called.
	_, err = h.Call(ctx, ada, "lamp_switch", &tool.Call{Args: json.RawMessage(`{"on":"yes"}`)})
	fmt.Println(tool.AsError(err).Code)
	// Output:
	// the lamp is on: true
	// bad_arguments
}
