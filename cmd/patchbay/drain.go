package main

import (
	"context"
	"net/http"
	"strings"

	"patchbay/internal/control"
	"patchbay/internal/talk"
)

type drainCmd struct {
	Undo        bool `help:"Take devices again."`
	serverFlags `embed:""`
	dataFlags   `embed:""`
}

// Help returns the command's detailed help with examples.
func (drainCmd) Help() string {
	return `The server says at /readyz that it is draining, tells its devices over some seconds to connect again, and refuses them from then on, so that they find another instance. Questions are answered until it is stopped. A server that is stopped does the same for five seconds if there are other instances; a load balancer that looks less often needs this command before.

Examples:

    patchbay drain
    patchbay drain --undo`
}

var (
	sayDrains = talk.Say{Zh: "实例 %s 正在排空：设备会转到其他实例。",
		En: "The instance %s is draining: its devices go to the others."}
	sayDrainsOff = talk.Say{Zh: "实例 %s 重新接受设备。", En: "The instance %s takes devices again."}
	sayDrainsTo  = talk.Say{Zh: "其他实例：%s", En: "Other instances: %s"}
	sayDrainsTo0 = talk.Say{Zh: "没有其他实例：在它重新启动之前，设备连接不上。",
		En: "There is no other instance: devices have nowhere to go until it is started again."}
)

// Run drains a server.
func (c *drainCmd) Run(ctx context.Context, sh *shell) error {
	r, err := c.remote(sh)
	if err != nil {
		return err
	}
	if r == nil {
		settings, err := c.load(sh)
		if err != nil {
			return err
		}
		if r, err = findRunning(ctx, sh, settings); err != nil {
			return err
		}
	}
	if r == nil {
		return talk.Say{Zh: "这个数据文件夹上没有运行服务；请给出 --server",
			En: "no server runs on this data folder; give --server"}.Wrong()
	}
	method := http.MethodPost
	if c.Undo {
		method = http.MethodDelete
	}
	var s control.Status
	if err := r.do(ctx, method, "/api/v1/drain", nil, &s); err != nil {
		return err
	}
	return sh.result(s, func() {
		switch {
		case c.Undo:
			sh.say(sayDrainsOff, s.Instance)
		case len(s.Others) == 0:
			sh.say(sayDrains, s.Instance)
			sh.say(sayDrainsTo0)
		default:
			sh.say(sayDrains, s.Instance)
			sh.say(sayDrainsTo, strings.Join(s.Others, ", "))
		}
	})
}
