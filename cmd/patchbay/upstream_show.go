package main

import (
	"context"
	"encoding/json"
	"maps"
	"slices"

	"patchbay/internal/app"
	"patchbay/internal/control"
	"patchbay/internal/store"
	"patchbay/internal/talk"
)

type upstreamShowCmd struct {
	upstreamFlags `embed:""`
}

// Help returns the command's detailed help with examples.
func (upstreamShowCmd) Help() string {
	return `Secrets are masked: tokens, headers, variables, and what stands behind the ? of an address.

Examples:

    patchbay upstream show files
    patchbay upstream show files --json`
}

// upstreamView is the output about an upstream.
type upstreamView struct {
	control.Upstream
	Settings map[string]json.RawMessage `json:"settings"` // secrets masked
}

// Run prints the upstream.
func (c *upstreamShowCmd) Run(ctx context.Context, sh *shell) error {
	return c.resolve(ctx, sh, func(b *app.Base, u store.Upstream) error {
		rows, _, err := localUpstreams(ctx, sh, b)
		if err != nil {
			return err
		}
		v := upstreamView{Upstream: control.Upstream{Upstream: u}}
		for _, row := range rows {
			if row.Number == u.Number {
				v.Upstream = row
			}
		}
		if v.Settings, err = b.ShownUpstream(u); err != nil {
			return err
		}
		return sh.result(v, func() { sh.showUpstream(v) })
	})
}

var (
	sayHeadUpstream = talk.Say{Zh: "上游 %s（%s，属于 %s）：%s", En: "Upstream %s (%s, of %s): %s"}
	sayUpSince      = talk.Say{Zh: "自 %s 起", En: "since %s"}
	sayItsServer    = talk.Say{Zh: "服务器：%s %s（MCP %s，%s）", En: "Its server: %s %s (MCP %s, %s)"}
	sayItsTools     = talk.Say{Zh: "工具：%d 个", En: "Its tools: %d"}
	sayNextTry      = talk.Say{Zh: "下次重试：%s", En: "It is tried again at %s"}
	sayItsLines     = talk.Say{Zh: "\n命令最后的输出", En: "\nWhat the command said last"}
	sayShimSee      = talk.Say{Zh: "这是一个 OpenClaw 网关；它的节点：patchbay shim status %s",
		En: "It is an OpenClaw gateway. How the nodes there are: patchbay shim status %s"}
	sayCloudCalls = talk.Say{Zh: "这个服务可以调用 allow 里的工具。", En: "This service can call the tools of allow."}
)

func (sh *shell) showUpstream(v upstreamView) {
	sh.say(sayHeadUpstream, v.Slug, v.Kind, v.OwnerName, sh.upstreamState(v.State))
	if !v.Since.IsZero() {
		sh.say(sayUpSince, sh.when(v.Since))
	}
	if v.Kind == app.UpstreamCloud {
		sh.say(sayCloudCalls)
	}
	if v.Kind == app.UpstreamShim {
		sh.say(sayShimSee, v.Slug)
	}
	if v.Problem != "" {
		sh.printf("%s\n", problemText(v.Problem, v.Cause))
	}
	if !v.NextTry.IsZero() {
		sh.say(sayNextTry, v.NextTry.Local().Format("15:04:05"))
	}
	if v.Protocol != "" {
		sh.say(sayItsServer, plain(v.Server), plain(v.ServerVersion), v.Protocol, v.Transport)
		sh.say(sayItsTools, v.Tools)
		sh.showLeftOut(v.Hidden, v.Skipped, v.Cut)
	}
	if len(v.Settings) > 0 {
		sh.say(sayHeadSettings)
		for _, name := range slices.Sorted(maps.Keys(v.Settings)) {
			sh.printf("  %s = %s\n", name, plainJSON(v.Settings[name]))
		}
	}
	if len(v.Stderr) > 0 {
		sh.say(sayItsLines)
		for _, line := range v.Stderr {
			sh.printf("  %s\n", plain(line))
		}
	}
}
