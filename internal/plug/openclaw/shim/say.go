package shim

import (
	"fmt"

	"patchbay/internal/talk"
)

// maxRemoteText limits the gateway's text that is shown to people, in characters.
const maxRemoteText = 200

// Texts for the owner.
var (
	sayNoKey = talk.Say{
		Zh: "无法读取或保存节点的密钥，稍后会再试。",
		En: "The node's key cannot be read or kept; it is tried again in a moment.",
	}
	sayApproval = talk.Say{
		Zh: "网关已接受设备，但它的主人还要批准节点能做的事。请在网关的机器上运行：%s",
		En: "The gateway has let the device in, and its owner has to approve what the node can do. Run this on the gateway's machine: %s",
	}
	sayRejected = talk.Say{
		Zh: "网关的主人拒绝了这个节点能做的事。重新连接后可以再次批准。",
		En: "The gateway's owner has rejected what the node can do. It can be approved after the next connection.",
	}
	sayReplaced = talk.Say{
		Zh: "同一个节点从别处连接了网关。请确认只有一个 Patchbay 在使用它。",
		En: "The same node has connected to the gateway from elsewhere. See that only one Patchbay uses it.",
	}
	sayNotTaken = talk.Say{
		Zh: "网关不接受这些工具：%s",
		En: "The gateway does not take the tools: %s",
	}
	sayNoneTaken = talk.Say{
		Zh: "网关没有接受任何工具：新的能力可能还没有批准（请在网关的机器上运行：%s），或它的设置不允许 mcp.tools.call.v1。",
		En: "The gateway has taken none of the tools: perhaps something new has to be approved (run this on the gateway's machine: %s), or its settings do not allow mcp.tools.call.v1.",
	}
	sayCut = talk.Say{
		Zh: "有 %d 个工具没有公布：网关最多接受 %d 个。请选择较少的设备，或让每台设备各自成为一个节点。",
		En: "%d tools are not published: the gateway takes %d at most. Choose fewer devices, or let each be a node of its own.",
	}
	sayTooMany = talk.Say{
		Zh: "没有加入网关：最多 %d 台设备可以各自成为节点。",
		En: "It has not joined the gateway: at most %d devices can be nodes of their own.",
	}
)

// say fills in the arguments of a message.
func say(s talk.Say, args ...any) talk.Say {
	return talk.Say{Zh: fmt.Sprintf(s.Zh, args...), En: fmt.Sprintf(s.En, args...)}
}
