package mcptest

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"patchbay/internal/tool"
)

// roundFixtures request input by a result that lists it (2026-07-28 basic/patterns/mrtr).
var roundFixtures = []fixture{
	newFixture("test_input_required_result_elicitation", "Asks for a name.",
		func(_ context.Context, _ *Fixtures, c *tool.Call) (*tool.Result, error) {
			if name, ok := formText(c, "user_name", "name"); ok {
				return tool.Text("Hello, " + name + "!"), nil
			}
			return ask(c, "", map[string]tool.Request{"user_name": elicitationRequest("What is your name?", nameForm)})
		}),
	newFixture("test_input_required_result_sampling", "Asks the caller's model.",
		func(_ context.Context, _ *Fixtures, c *tool.Call) (*tool.Result, error) {
			if words, ok := samplingAnswer(c, "capital_question"); ok {
				return tool.Text("The model says: " + words), nil
			}
			return ask(c,
				"", map[string]tool.Request{"capital_question": samplingRequest("What is the capital of France?", 100)})
		}),
	newFixture("test_input_required_result_list_roots", "Asks for the caller's folders.",
		func(_ context.Context, _ *Fixtures, c *tool.Call) (*tool.Result, error) {
			if uris, ok := rootsAnswer(c, "client_roots"); ok {
				return tool.Text(fmt.Sprintf("%d folders: %s", len(uris), strings.Join(uris, ", "))), nil
			}
			return ask(c, "", map[string]tool.Request{"client_roots": rootsRequest()})
		}),
	newFixture("test_input_required_result_request_state", "Hands out a state and wants it back.",
		confirmWithState("request_state")),
	newFixture("test_input_required_result_tampered_state", "Hands out a state and refuses another one.",
		confirmWithState("tampered_state")),
	newFixture("test_input_required_result_multiple_inputs", "Asks for three things at once.", multipleInputs),
	newFixture("test_input_required_result_multi_round", "Asks twice.", multiRound),
	newFixture("test_input_required_result_capabilities", "Asks for what the caller can be asked for.", askSupported),
}

// confirmWithState requests a confirmation that must be sent with the state.
func confirmWithState(state string) func(context.Context, *Fixtures, *tool.Call) (*tool.Result, error) {
	return func(_ context.Context, _ *Fixtures, c *tool.Call) (*tool.Result, error) {
		_, ok := formAnswer(c, "confirm")
		switch {
		case c.State != "" && c.State != state, ok && c.State == "":
			return nil, badStateError()
		case ok:
			return tool.Text("state-ok: confirmed"), nil
		}
		return ask(c, state, map[string]tool.Request{"confirm": elicitationRequest("Please confirm", confirmForm)})
	}
}

func multipleInputs(_ context.Context, _ *Fixtures, c *tool.Call) (*tool.Result, error) {
	const state = "multiple_inputs"
	name, named := formText(c, "user_name", "name")
	greeting, greeted := samplingAnswer(c, "greeting")
	uris, rooted := rootsAnswer(c, "client_roots")
	answered := named && greeted && rooted
	switch {
	case c.State != "" && c.State != state, answered && c.State == "":
		return nil, badStateError()
	case answered:
		return tool.Text(fmt.Sprintf("%s, %s! I see %d folders.", greeting, name, len(uris))), nil
	}
	return ask(c, state, map[string]tool.Request{
		"user_name":    elicitationRequest("What is your name?", nameForm),
		"greeting":     samplingRequest("Generate a greeting", 50),
		"client_roots": rootsRequest(),
	})
}

// multiRound requests a name and then a color. What it knows is in the state, since it remembers
// nothing between two rounds.
func multiRound(_ context.Context, _ *Fixtures, c *tool.Call) (*tool.Result, error) {
	var state struct {
		Round int    `json:"round"`
		Name  string `json:"name,omitempty"`
	}
	if c.State != "" && json.Unmarshal([]byte(c.State), &state) != nil {
		return nil, badStateError()
	}
	if state.Round < 2 {
		name, ok := formText(c, "step1", "name")
		if !ok || state.Round == 0 {
			state.Round = 1
			return ask(c, string(raw(state)),
				map[string]tool.Request{"step1": elicitationRequest("Step 1: What is your name?", nameForm)})
		}
		state.Round, state.Name = 2, name
	}
	color, ok := formText(c, "step2", "color")
	if !ok {
		return ask(c, string(raw(state)),
			map[string]tool.Request{"step2": elicitationRequest("Step 2: What is your favorite color?", colorForm)})
	}
	return tool.Text(state.Name + " likes " + color + "."), nil
}

func askSupported(_ context.Context, _ *Fixtures, c *tool.Call) (*tool.Result, error) {
	requests := map[string]tool.Request{}
	answered := true
	if c.Capabilities.Elicit {
		requests["user_name"] = elicitationRequest("What is your name?", nameForm)
		_, ok := formText(c, "user_name", "name")
		answered = answered && ok
	}
	if c.Capabilities.Sample {
		requests["greeting"] = samplingRequest("Generate a short greeting", 50)
		_, ok := samplingAnswer(c, "greeting")
		answered = answered && ok
	}
	if c.Capabilities.Roots {
		requests["client_roots"] = rootsRequest()
		_, ok := rootsAnswer(c, "client_roots")
		answered = answered && ok
	}
	if answered {
		return tool.Text(fmt.Sprintf("You were asked for %d things.", len(requests))), nil
	}
	return ask(c, "", requests)
}
