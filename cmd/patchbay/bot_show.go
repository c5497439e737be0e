package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"patchbay/internal/app"
	"patchbay/internal/check"
	"patchbay/internal/config"
	"patchbay/internal/i18n"
	"patchbay/internal/store"
)

type botShowCmd struct {
	Bot       string `arg:"" help:"Number or name of the bot."`
	dataFlags `embed:""`
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
	Wearers  []store.Binding            `json:"wearers"`
	Lingzhu  lingzhuForm                `json:"lingzhu"`
	Traces   []store.Trace              `json:"traces"` // newest first
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

// Run shows the bot.
func (c *botShowCmd) Run(ctx context.Context, sh *shell) error {
	return c.withData(ctx, sh, func(b *app.Base) error {
		bot, err := findBot(ctx, b, c.Bot)
		if err != nil {
			return err
		}
		v, err := viewBot(ctx, sh, b, bot, c.retryFlags())
		if err != nil {
			return err
		}
		return sh.result(v, func() { sh.showBot(v) })
	})
}

func viewBot(ctx context.Context, sh *shell, b *app.Base, bot store.Bot, again string) (v botView, err error) {
	rows, err := localRows(ctx, sh, b)
	if err != nil {
		return v, err
	}
	for _, r := range rows {
		if r.Number == bot.Number {
			v.botRow = r
		}
	}
	if v.Settings, err = b.Registry.MaskedSettings(bot); err != nil {
		return v, err
	}
	if v.Wearers, err = b.Store.Bindings.ByBot(ctx, bot.Number); err != nil {
		return v, err
	}
	v.Lingzhu = form(sh, b.Config, bot, again)
	v.Traces, err = lastTraces(ctx, b, bot)
	return v, err
}

// form returns the values for the platform's form.
func form(sh *shell, c *config.Config, bot store.Bot, again string) lingzhuForm {
	f := lingzhuForm{
		Vendor: "自定义智能体", Agent: bot.Number, URL: outsideURL(c) + "/sse/rokid",
		AK:    fmt.Sprintf("patchbay key add --name lingzhu --scope lingzhu --bot %d%s", bot.Number, again),
		Input: "文字, 图片",
	}
	if c.PublicURL == "" {
		f.Warn = msgNoPublic.In(sh.lang)
	}
	return f
}

const (
	tracesShown = 10
	// tracesSearched is how many of the owner's turns are searched for those of one bot.
	tracesSearched = 500
)

// lastTraces returns the newest turns of a bot.
func lastTraces(ctx context.Context, b *app.Base, bot store.Bot) ([]store.Trace, error) {
	all, err := b.Store.Traces.Newest(ctx, bot.Owner, time.Now().Add(time.Minute), tracesSearched)
	if err != nil {
		return nil, err
	}
	mine := []store.Trace{}
	for _, t := range all {
		if t.Bot == bot.Number && len(mine) < tracesShown {
			mine = append(mine, t)
		}
	}
	return mine, nil
}

const (
	msgNoPublic     = i18n.Message("public_url is not set: put an https address there that the platform can reach.")
	msgHeadBot      = i18n.Message("Bot %d: %s (%s, %s)")
	msgBotSince     = i18n.Message("Connected since %s, last heard: %s")
	msgHeadSettings = i18n.Message("\nSettings")
	msgHeadForm     = i18n.Message("\nFor the form of the Lingzhu platform (三方智能体)")
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

func (sh *shell) traceTable(traces []store.Trace) {
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
