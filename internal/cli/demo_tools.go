package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"patchbay/internal/api"
	"patchbay/internal/control"
	"patchbay/internal/i18n"
	"patchbay/internal/plug/mcp/sim"
)

// The tools of the demo by the names that callers use.
const (
	homeSlug     = "home"
	toolWarmth   = "home_get_temperature"
	toolLamp     = "home_set_lamp"
	lampLevel    = 40
	protocolPage = "2026-07-28"
)

const (
	msgButler      = i18n.Message("Butler")
	msgHowWarm     = i18n.Message("How warm is it in the study?")
	msgStudy       = i18n.Message("study")
	msgItIs        = i18n.Message("I looked at the thermometer: %s.")
	msgFromDesk    = i18n.Message("A question from the desk")
	msgDemoAllowed = i18n.Message("the owner was asked, and allowed %s to call %s once")
	msgToolsNote   = i18n.Message("the tool %s was called and recorded in the audit trail; a program set the lamp to %d")
)

// playTools has a model call a tool of an upstream for a question of the glasses, and has a program
// call a tool and a bot.
func playTools(ctx context.Context, st *demoRun) error {
	home, err := sim.Start()
	if err != nil {
		return err
	}
	st.stops = append(st.stops, home.Close)
	if _, err := api.AddUpstream.Call(ctx, st.at, control.NewUpstream{Name: homeSlug, Kind: control.KindServer,
		Settings: control.SettingTexts{"url": home.URL}}); err != nil {
		return err
	}
	key, err := st.newKey(ctx, "desk", "mcp")
	if err != nil {
		return err
	}
	p := &demoProgram{st: st, key: key}
	if err := await(ctx, "the tools of the home did not join the board", func() (bool, error) {
		list, err := p.ask(ctx, "tools/list", nil)
		return strings.Contains(string(list), `"`+toolWarmth+`"`), err
	}); err != nil {
		return err
	}
	bot, err := st.bot(ctx, msgButler, "openai", map[string]string{
		"base_url": st.model.server.URL, "model": "demo", "retries": "-1", "allow_tools": homeSlug + "_*",
	})
	if err != nil {
		return err
	}
	heard, err := st.glasses(owner, strconv.FormatInt(bot.Number, 10)).say(ctx, msgHowWarm.In(st.sh.lang))
	if err == nil {
		err = heard.expect(sim.Temperature)
	}
	if err != nil {
		return err
	}
	if err := st.checkAudit(ctx, toolWarmth, bot.Number); err != nil {
		return err
	}
	return p.play(ctx, home, bot.Number)
}

// checkAudit returns an error unless the audit trail contains a bot's call.
func (st *demoRun) checkAudit(ctx context.Context, tool string, bot int64) error {
	return await(ctx, "the audit trail lacks the bot's call of "+tool, func() (bool, error) {
		page, err := api.Calls.Call(ctx, st.at, control.CallQuery{Limit: 10})
		return slices.ContainsFunc(page.Calls, func(c control.Call) bool {
			return c.Tool == tool && c.Bot == bot && c.Turn != "" && c.Outcome == "done"
		}), err
	})
}

// demoProgram is a minimal MCP client.
type demoProgram struct {
	st  *demoRun
	key string
	id  int
}

// play dims the lamp and asks the bot as the program.
func (p *demoProgram) play(ctx context.Context, home *sim.ToolServer, bot int64) error {
	st := p.st
	st.line("⇢", fmt.Sprintf("%s level=%d", toolLamp, lampLevel))
	res, err := p.call(ctx, toolLamp, map[string]any{"room": msgStudy.In(st.sh.lang), "level": lampLevel})
	if err != nil {
		return err
	}
	st.line("⇠", res)
	if level, _ := home.Lamp(); level != lampLevel {
		return fmt.Errorf("the lamp is at %d, not at %d", level, lampLevel)
	}
	if _, err := p.call(ctx, "home_reset", nil); err == nil {
		return errors.New("a dangerous tool was carried out although nobody allowed it")
	}
	if err := p.playApproval(ctx, "home_reset"); err != nil {
		return err
	}
	st.line("⇢", "send_message "+msgFromDesk.In(st.sh.lang))
	reply, err := p.call(ctx, "send_message", map[string]any{"botId": strconv.FormatInt(bot, 10),
		"message": msgFromDesk.In(st.sh.lang)})
	if err != nil {
		return err
	}
	st.line("⇠", reply)
	if want := st.model.welcome.In(st.sh.lang); reply != want {
		return fmt.Errorf("the bot's reply to the program is %q, not %q", reply, want)
	}
	st.note = msgToolsNote.In(st.sh.lang, toolWarmth, lampLevel)
	return nil
}

// playApproval has the program call a dangerous tool that its key asks about, and its owner allow
// it.
func (p *demoProgram) playApproval(ctx context.Context, name string) error {
	st := p.st
	keys, err := api.Keys.Call(ctx, st.at, control.KeyQuery{})
	if err != nil {
		return err
	}
	desk := slices.IndexFunc(keys.Keys, func(k control.KeyRow) bool { return k.Name == "desk" })
	if desk < 0 {
		return errors.New("the key of the program is gone")
	}
	if _, err := api.ChangeKey.Call(ctx, st.at, control.KeyChange{Key: keys.Keys[desk].ID,
		Rules: control.Rules{Ask: "owner"}}); err != nil {
		return err
	}
	if err := await(ctx, "the program does not see "+name, func() (bool, error) {
		list, err := p.ask(ctx, "tools/list", nil)
		return strings.Contains(string(list), `"`+name+`"`), err
	}); err != nil {
		return err
	}
	st.line("⇢", name)
	decided := make(chan error, 1)
	go func() {
		decided <- await(ctx, "no call waits for an approval", func() (bool, error) {
			list, err := api.Approvals.Call(ctx, st.at, struct{}{})
			if err != nil || len(list.Approvals) == 0 {
				return false, err
			}
			_, err = api.DecideApproval.Call(ctx, st.at, control.ApprovalDecision{Approval: list.Approvals[0].ID,
				Decision: control.DecideOnce})
			return true, err
		})
	}()
	res, err := p.call(ctx, name, nil)
	if err := errors.Join(err, <-decided); err != nil {
		return err
	}
	st.line("?", msgDemoAllowed.In(st.sh.lang, "desk", name))
	st.line("⇠", res)
	return nil
}

// tool returns the name of the tool with a suffix.
func (p *demoProgram) tool(ctx context.Context, end string) (name string, err error) {
	err = await(ctx, "there is no tool *"+end, func() (bool, error) {
		raw, err := p.ask(ctx, "tools/list", nil)
		if err != nil {
			return false, err
		}
		var list struct{ Tools []struct{ Name string } }
		if err := json.Unmarshal(raw, &list); err != nil {
			return false, err
		}
		for _, t := range list.Tools {
			if strings.HasSuffix(t.Name, end) {
				name = t.Name
				return true, nil
			}
		}
		return false, nil
	})
	return name, err
}

// call calls a tool and returns its text.
func (p *demoProgram) call(ctx context.Context, name string, args map[string]any) (string, error) {
	if args == nil {
		args = map[string]any{}
	}
	raw, err := p.ask(ctx, "tools/call", map[string]any{"name": name, "arguments": args})
	if err != nil {
		return "", err
	}
	var r struct {
		Content []struct{ Text string }
		IsError bool
	}
	if err := json.Unmarshal(raw, &r); err != nil || len(r.Content) == 0 {
		return "", fmt.Errorf("the result of %s is %s", name, raw)
	}
	if r.IsError {
		return "", errors.New(r.Content[0].Text)
	}
	return r.Content[0].Text, nil
}

// ask sends one request, in the revision of the protocol that needs no handshake.
func (p *demoProgram) ask(ctx context.Context, method string, params map[string]any) (json.RawMessage, error) {
	if params == nil {
		params = map[string]any{}
	}
	params["_meta"] = map[string]any{
		"io.modelcontextprotocol/protocolVersion":    protocolPage,
		"io.modelcontextprotocol/clientCapabilities": map[string]any{},
		"io.modelcontextprotocol/clientInfo":         map[string]any{"name": "desk", "version": "1"},
	}
	p.id++
	header := map[string]string{
		"Authorization": "Bearer " + p.key, "Accept": "application/json, text/event-stream",
		"MCP-Protocol-Version": protocolPage, "Mcp-Method": method,
	}
	if name, ok := params["name"].(string); ok {
		header["Mcp-Name"] = name
	}
	var m struct {
		Result json.RawMessage
		Error  *struct{ Message string }
	}
	if err := postJSON(ctx, p.st.url+"/mcp", header, map[string]any{"jsonrpc": "2.0", "id": p.id, "method": method,
		"params": params}, &m); err != nil {
		return nil, fmt.Errorf("%s: %w", method, err)
	}
	if m.Error != nil {
		return nil, errors.New(m.Error.Message)
	}
	return m.Result, nil
}
