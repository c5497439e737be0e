package mcptest

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"patchbay/internal/tool"
)

// rounds ask the caller by a result that says what is missing.
var rounds = []fixture{
	plain("test_input_required_result_elicitation", "Asks for a name.",
		func(_ context.Context, _ *Fixtures, c *tool.Call) (*tool.Result, error) {
			if name, ok := word(c, "user_name", "name"); ok {
				return tool.Text("Hello, " + name + "!"), nil
			}
			return ask(c, "", map[string]tool.Request{"user_name": form("What is your name?", nameForm)})
		}),
	plain("test_input_required_result_sampling", "Asks the caller's model.",
		func(_ context.Context, _ *Fixtures, c *tool.Call) (*tool.Result, error) {
			if words, ok := sampled(c, "capital_question"); ok {
				return tool.Text("The model says: " + words), nil
			}
			return ask(c, "", map[string]tool.Request{"capital_question": sample("What is the capital of France?", 100)})
		}),
	plain("test_input_required_result_list_roots", "Asks for the caller's folders.",
		func(_ context.Context, _ *Fixtures, c *tool.Call) (*tool.Result, error) {
			if uris, ok := listed(c, "client_roots"); ok {
				return tool.Text(fmt.Sprintf("%d folders: %s", len(uris), strings.Join(uris, ", "))), nil
			}
			return ask(c, "", map[string]tool.Request{"client_roots": roots()})
		}),
	plain("test_input_required_result_request_state", "Hands out a state and wants it back.", confirmed("request_state")),
	plain("test_input_required_result_tampered_state", "Hands out a state and refuses another one.", confirmed("tampered_state")),
	plain("test_input_required_result_multiple_inputs", "Asks for three things at once.", multipleInputs),
	plain("test_input_required_result_multi_round", "Asks twice.", multiRound),
	plain("test_input_required_result_capabilities", "Asks for what the caller can be asked for.", whatYouCan),
}

// confirmed asks for a confirmation that must come with the state.
func confirmed(state string) func(context.Context, *Fixtures, *tool.Call) (*tool.Result, error) {
	return func(_ context.Context, _ *Fixtures, c *tool.Call) (*tool.Result, error) {
		_, ok := filled(c, "confirm")
		switch {
		case c.State != "" && c.State != state, ok && c.State == "":
			return nil, badState()
		case ok:
			return tool.Text("state-ok: confirmed"), nil
		}
		return ask(c, state, map[string]tool.Request{"confirm": form("Please confirm", confirmForm)})
	}
}

func multipleInputs(_ context.Context, _ *Fixtures, c *tool.Call) (*tool.Result, error) {
	const state = "multiple_inputs"
	name, named := word(c, "user_name", "name")
	greeting, greeted := sampled(c, "greeting")
	uris, rooted := listed(c, "client_roots")
	answered := named && greeted && rooted
	switch {
	case c.State != "" && c.State != state, answered && c.State == "":
		return nil, badState()
	case answered:
		return tool.Text(fmt.Sprintf("%s, %s! I see %d folders.", greeting, name, len(uris))), nil
	}
	return ask(c, state, map[string]tool.Request{
		"user_name":    form("What is your name?", nameForm),
		"greeting":     sample("Generate a greeting", 50),
		"client_roots": roots(),
	})
}

// multiRound asks for a name and then for a color. What it knows is in the
// state, for it does not remember anything between two rounds.
func multiRound(_ context.Context, _ *Fixtures, c *tool.Call) (*tool.Result, error) {
	var state struct {
		Round int    `json:"round"`
		Name  string `json:"name,omitempty"`
	}
	if c.State != "" && json.Unmarshal([]byte(c.State), &state) != nil {
		return nil, badState()
	}
	if state.Round < 2 {
		name, ok := word(c, "step1", "name")
		if !ok || state.Round == 0 {
			state.Round = 1
			return ask(c, string(raw(state)), map[string]tool.Request{"step1": form("Step 1: What is your name?", nameForm)})
		}
		state.Round, state.Name = 2, name
	}
	color, ok := word(c, "step2", "color")
	if !ok {
		return ask(c, string(raw(state)), map[string]tool.Request{"step2": form("Step 2: What is your favorite color?", colorForm)})
	}
	return tool.Text(state.Name + " likes " + color + "."), nil
}

func whatYouCan(_ context.Context, _ *Fixtures, c *tool.Call) (*tool.Result, error) {
	requests := map[string]tool.Request{}
	answered := true
	if c.Can.Elicit {
		requests["user_name"] = form("What is your name?", nameForm)
		_, ok := word(c, "user_name", "name")
		answered = answered && ok
	}
	if c.Can.Sample {
		requests["greeting"] = sample("Generate a short greeting", 50)
		_, ok := sampled(c, "greeting")
		answered = answered && ok
	}
	if c.Can.Roots {
		requests["client_roots"] = roots()
		_, ok := listed(c, "client_roots")
		answered = answered && ok
	}
	if answered {
		return tool.Text(fmt.Sprintf("You were asked for %d things.", len(requests))), nil
	}
	return ask(c, "", requests)
}
