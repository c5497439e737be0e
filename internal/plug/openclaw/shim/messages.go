package shim

import (
	"patchbay/internal/i18n"
)

// maxRemoteText limits the gateway's text that is shown to people, in characters.
const maxRemoteText = 200

// Texts for the owner.
const (
	msgNoKey     = i18n.Message("The node's key cannot be read or kept; it is tried again in a moment.")
	msgApproval  = i18n.Message("The gateway has let the device in, and its owner has to approve what the node can do. Run this on the gateway's machine: %s")
	msgRejected  = i18n.Message("The gateway's owner has rejected what the node can do. It can be approved after the next connection.")
	msgReplaced  = i18n.Message("The same node has connected to the gateway from elsewhere. See that only one Patchbay uses it.")
	msgNotTaken  = i18n.Message("The gateway does not take the tools: %s")
	msgNoneTaken = i18n.Message("The gateway has taken none of the tools: perhaps something new has to be approved (run this on the gateway's machine: %s), or its settings do not allow mcp.tools.call.v1.")
	msgCut       = i18n.Message("%d tools are not published: the gateway takes %d at most. Choose fewer devices, or let each be a node of its own.")
	msgTooMany   = i18n.Message("It has not joined the gateway: at most %d devices can be nodes of their own.")
)
