package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"patchbay/internal/api"
	"patchbay/internal/check"
	"patchbay/internal/control"
	"patchbay/internal/i18n"
)

type botShowCmd struct {
	Bot         string `arg:"" help:"Number or name of the bot."`
	targetFlags `embed:""`
}

// Help returns the command's detailed help with examples.
func (botShowCmd) Help() string {
	return `Example:

    patchbay bot show lobster`
}

// botView is the output about a bot.
type botView struct {
	botRow
	Settings map[string]json.RawMessage `json:"settings"` // secrets masked
	Wearers  []control.Wearer           `json:"wearers"`
	Lingzhu  lingzhuForm                `json:"lingzhu"`
	Traces   []control.TurnRow          `json:"traces"` // newest first
}

// lingzhuForm holds the values for the form of the glasses platform, with its field names.
type lingzhuForm struct {
	Vendor string `json:"三方厂商"`
	Agent  int64  `json:"智能体ID"`
	URL    string `json:"URL"`
	AK     string `json:"AK"` // how to make one
	Input  string `json:"入参类型"`
	Warn   string `json:"warning,omitempty"`
}

// tracesShown is how many of its last turns are shown of a bot.
const tracesShown = 10

// Run shows the bot.
func (c *botShowCmd) Run(ctx context.Context, sh *shell) error {
	return c.connect(ctx, sh, func(at *conn) error {
		bot, err := at.findBot(ctx, c.Bot)
		if err != nil {
			return err
		}
		ref := strconv.FormatInt(bot.Number, 10)
		wearers, err := api.Wearers.Call(ctx, at.Client, control.BotRef{Bot: ref})
		if err != nil {
			return err
		}
		turns, err := api.BotTurns.Call(ctx, at.Client, control.BotTurnsQuery{Bot: ref, Limit: tracesShown})
		if err != nil {
			return err
		}
		v := botView{botRow: newBotRow(bot.BotStatus, at.local), Settings: bot.Settings, Wearers: wearers.Wearers,
			Lingzhu: c.form(ctx, sh, at, bot.Number), Traces: turns.Turns}
		return sh.result(v, func() {
			sh.showBot(v)
			if v.Certificate != nil {
				sh.showCertificate(*v.Certificate, fmt.Sprintf("patchbay bot set %s tls_fingerprint=%s%s", ref,
					v.Certificate.Shown, c.retryFlags()))
			}
		})
	})
}

// form returns the values for the platform's form.
func (c *botShowCmd) form(ctx context.Context, sh *shell, at *conn, bot int64) lingzhuForm {
	url, public := at.address(ctx)
	f := lingzhuForm{
		Vendor: "自定义智能体", Agent: bot, URL: url + "/sse/rokid",
		AK:    fmt.Sprintf("patchbay key add --name lingzhu --scope lingzhu --bot %d%s", bot, c.retryFlags()),
		Input: "文字, 图片",
	}
	if !public {
		f.Warn = msgNoPublic.In(sh.lang)
	}
	return f
}

const (
	msgNoPublic     = i18n.Message("public_url is not set: set it to an https address that the platform can reach.")
	msgHeadBot      = i18n.Message("Bot %d: %s (%s, %s)")
	msgBotSince     = i18n.Message("Connected since %s, last heard: %s")
	msgHeadSettings = i18n.Message("\nSettings")
	msgHeadForm     = i18n.Message("\nValues for the form of the Lingzhu platform (三方智能体)")
	msgHeadWearers  = i18n.Message("\nBound")
	msgHeadTraces   = i18n.Message("\nLast turns")
	msgMakeKey      = i18n.Message("make one with: %s")
	msgAt           = i18n.Message("AT")
	msgChannel      = i18n.Message("CHANNEL")
	msgOutcome      = i18n.Message("OUTCOME")
	msgFirst        = i18n.Message("FIRST")
	msgTotal        = i18n.Message("TOTAL")
	msgPieces       = i18n.Message("PIECES")
	msgCause        = i18n.Message("CAUSE")
)

func (sh *shell) showBot(v botView) {
	sh.say(msgHeadBot, v.Number, v.Name, v.Kind, botState(sh, v.botRow))
	for _, line := range []string{v.Description, v.Problem} {
		if line != "" {
			sh.printf("%s\n", line)
		}
	}
	if !v.Since.IsZero() {
		sh.say(msgBotSince, sh.when(v.Since), sh.when(v.LastSeen))
	}
	if v.Gateway != "" {
		sh.printf("OpenClaw %s\n", check.Foreign(v.Gateway))
	}
	if len(v.Settings) > 0 {
		sh.say(msgHeadSettings)
		for _, name := range slices.Sorted(maps.Keys(v.Settings)) {
			sh.printf("  %s = %s\n", name, plainJSON(v.Settings[name]))
		}
	}
	sh.showForm(v.Lingzhu)
	if len(v.Wearers) > 0 {
		sh.say(msgHeadWearers)
		sh.wearerTable(v.Wearers)
	}
	if len(v.Traces) > 0 {
		sh.say(msgHeadTraces)
		sh.traceTable(v.Traces)
	}
}

func (sh *shell) showForm(f lingzhuForm) {
	sh.say(msgHeadForm)
	sh.printf("  三方厂商   %s\n  智能体ID   %d\n  URL        %s\n  AK         %s\n  入参类型   %s\n",
		f.Vendor, f.Agent, f.URL, msgMakeKey.In(sh.lang, f.AK), f.Input)
	if f.Warn != "" {
		sh.printf("  ! %s\n", f.Warn)
	}
}

func (sh *shell) traceTable(traces []control.TurnRow) {
	var rows [][]string
	for _, t := range traces {
		first := ""
		if t.First > 0 {
			first = took(t.First)
		}
		cause := singleLine(t.Cause)
		rows = append(rows, []string{t.At.Local().Format("01-02 15:04:05"), t.Channel, t.Outcome, first, took(t.Total),
			strconv.FormatInt(t.Pieces, 10), cause})
	}
	sh.table([]i18n.Message{msgAt, msgChannel, msgOutcome, msgFirst, msgTotal, msgPieces, msgCause}, rows)
}

// plainJSON formats a setting for reading: strings without quotes.
func plainJSON(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) != nil {
		return string(raw)
	}
	return strings.ReplaceAll(text, "\n", "\n    ")
}
