package wire

import (
	"slices"
	"strings"
)

// toolName is what the name of a published tool must match.
var toolName = &pattern{`^[A-Za-z][A-Za-z0-9_-]{0,63}$`, LegalName}

// skillName is what the name of a published skill must match.
var skillName = &pattern{`^(?!.*--)[a-z0-9](?:[a-z0-9-]{0,62}[a-z0-9])?$`, func(s string) bool {
	if s == "" || len(s) > 64 || strings.Contains(s, "--") || strings.HasPrefix(s, "-") || strings.HasSuffix(s, "-") {
		return false
	}
	return strings.Trim(s, "-0123456789abcdefghijklmnopqrstuvwxyz") == ""
}}

// bundleHash is what the hash of a worker's programs must match.
var bundleHash = &pattern{`^[a-f0-9]{64}$`, func(s string) bool {
	return len(s) == 64 && strings.Trim(s, "0123456789abcdef") == ""
}}

// Short spellings for the tables below.

func must(name string) field   { return field{name: name, kind: text, required: true, least: 1} }
func may(name string) field    { return field{name: name, kind: text, least: 1} }
func free(name string) field   { return field{name: name, kind: text} }
func flag(name string) field   { return field{name: name, kind: truth} }
func count(name string) field  { return field{name: name, kind: whole} }
func naming(name string) field { return field{name: name, kind: texts} }
func loose(name string) field  { return field{name: name} }

// upTo bounds the length of a text.
func (f field) upTo(most int) field {
	f.most = most
	return f
}

// atLeast bounds a number.
func (f field) atLeast(least int) field {
	f.least = least
	return f
}

// wanted makes a member one that must be there.
func (f field) wanted() field {
	f.required = true
	return f
}

// only makes a text one of a few.
func only(name string, words ...string) field { return field{name: name, kind: word, words: words} }

func inner(name string, fields ...field) field {
	return field{name: name, kind: object, is: &Shape{fields: fields}}
}

// requestFrame is what a request must look like. OpenClaw's newest gateways take a
// member more than its published schema has.
var requestFrame = &Shape{"", []field{
	{name: "type", kind: text, required: true, words: []string{TypeRequest}},
	must("id"), must("method"), loose("params"), free("traceparent").upTo(128), free("expectedProfileId"),
}}

// The shapes of what gateways are sent. Of members that no client known here sends,
// only the names are checked.
var (
	ShapeConnect = &Shape{MethodConnect, []field{
		count("minProtocol").atLeast(1).wanted(), count("maxProtocol").atLeast(1).wanted(),
		inner("client",
			only("id", ClientIDs...).wanted(), may("displayName"), must("version"), may("buildId").upTo(96),
			must("platform"), may("deviceFamily"), may("modelIdentifier"), may("timeZone").upTo(64),
			only("mode", Modes...).wanted(), may("instanceId")).wanted(),
		naming("caps"), naming("commands"), loose("computerUse"),
		inner("workerRuns",
			field{name: "bundleHash", kind: text, required: true, least: 64, most: 64, matches: bundleHash}, must("openclawVersion").upTo(128),
			naming("protocolFeatures").wanted(), count("bundlePrewarm").atLeast(1)),
		{name: "permissions", kind: truths}, free("pathEnv"), may("role"), naming("scopes"),
		inner("device", must("id"), must("publicKey"), must("signature"), count("signedAt").wanted(), must("nonce")),
		inner("auth", free("token"), free("bootstrapToken"), free("deviceToken"), free("password"),
			free("approvalRuntimeToken"), free("agentRuntimeIdentityToken")),
		free("locale"), free("userAgent"),
	}}

	ShapeInvoke = &Shape{MethodNodeInvoke, []field{
		must("nodeId"), must("command"), loose("params"), count("timeoutMs"), must("idempotencyKey"), may("sessionKey"),
		free("turnSourceChannel"), free("turnSourceTo"), free("turnSourceAccountId"), {name: "turnSourceThreadId", kind: mark},
	}}
	ShapeInvokeResult = &Shape{MethodInvokeResult, []field{
		must("id"), must("nodeId"), flag("ok").wanted(), loose("payload"), free("payloadJSON"), inner("error", may("code"), may("message")),
	}}
	ShapeInvokeProgress = &Shape{MethodInvokeProgress, []field{
		must("invokeId"), must("nodeId"), count("seq").wanted(), free("chunk").upTo(MaxProgress).wanted(),
	}}
	ShapeNodeEvent   = &Shape{MethodNodeEvent, []field{must("event"), loose("payload"), free("payloadJSON")}}
	ShapePluginTools = &Shape{MethodPluginTools, []field{
		{name: "tools", kind: list, required: true, is: &Shape{fields: []field{
			must("pluginId"), {name: "name", kind: text, required: true, least: 1, most: MaxToolName, matches: toolName},
			must("description"), {name: "parameters", kind: table}, may("command"), inner("mcp", must("server"), must("tool")),
		}}},
	}}
	ShapeSkills = &Shape{MethodSkills, []field{
		{name: "skills", kind: list, required: true, is: &Shape{fields: []field{
			{name: "name", kind: text, required: true, least: 1, most: 64, matches: skillName},
			must("description").upTo(1024), must("content").upTo(65536),
		}}},
	}}

	ShapeNodeList       = &Shape{MethodNodeList, nil}
	ShapeNodeDescribe   = &Shape{MethodNodeDescribe, []field{must("nodeId")}}
	ShapeNodeRename     = &Shape{MethodNodeRename, []field{must("nodeId"), must("displayName")}}
	ShapeNodePairList   = &Shape{MethodNodePairList, nil}
	ShapeNodeApprove    = &Shape{MethodNodeApprove, []field{must("requestId")}}
	ShapeNodeReject     = &Shape{MethodNodeReject, []field{must("requestId")}}
	ShapeNodeRemove     = &Shape{MethodNodeRemove, []field{must("nodeId")}}
	ShapeDevicePairList = &Shape{MethodDevicePairList, nil}
	ShapeDeviceApprove  = &Shape{MethodDeviceApprove, []field{must("requestId")}}
	ShapeDeviceReject   = &Shape{MethodDeviceReject, []field{must("requestId")}}
	ShapeDeviceRemove   = &Shape{MethodDeviceRemove, []field{must("deviceId")}}

	ShapeChatSend = &Shape{MethodChatSend, []field{
		must("sessionKey").upTo(MaxSessionKey), may("agentId"), may("sessionId"), free("message").wanted(), loose("intent"), free("thinking"),
		loose("fastMode"), count("fastAutoOnSeconds").atLeast(1), only("queueMode", QueueModes...), flag("deliver"),
		free("originatingChannel"), free("originatingTo"), free("originatingAccountId"), free("originatingThreadId"), may("replyToId"),
		{name: "attachments", kind: list}, {name: "toolBindings", kind: table}, count("timeoutMs"), loose("systemInputProvenance"),
		free("systemProvenanceReceipt"), flag("suppressCommandInterpretation"), loose("expectedLeafEntryId"),
		may("expectedSessionRoutingContract"), loose("expectedPermissionMode"), loose("expectedToolOverrides"), must("idempotencyKey"),
	}}
	ShapeChatAbort = &Shape{MethodChatAbort, []field{
		must("sessionKey"), may("agentId"), may("runId"), flag("preserveSideRuns"),
	}}
	ShapeChatHistory = &Shape{MethodChatHistory, []field{
		must("sessionKey"), may("agentId"), free("cursor"), count("limit").atLeast(1), count("offset"), count("pendingBefore").atLeast(1),
		naming("inputRunIds"), may("messageId"), may("sessionId"), count("maxChars").atLeast(1),
	}}
	ShapeAgent = &Shape{MethodAgent, slices.Concat(
		[]field{
			must("message"), may("agentId"), free("provider"), free("model"), free("to"), free("replyTo"), free("sessionId"), free("sessionKey"),
			may("expectedExistingSessionId"), free("thinking"), flag("deliver"), {name: "attachments", kind: list}, free("channel"),
			free("replyChannel"), free("accountId"), free("replyAccountId"), free("threadId"), free("groupId"), free("groupChannel"),
			free("groupSpace"), count("timeout"), flag("bestEffortDeliver"), free("lane"), may("cwd"), free("extraSystemPrompt"),
			free("voiceWakeTrigger"), must("idempotencyKey"), may("label").upTo(512),
		},
		anyOf("cleanupBundleMcpOnRunEnd", "modelRun", "promptMode", "bootstrapContextMode", "bootstrapContextRunKind", "acpTurnSource",
			"internalRuntimeHandoffId", "internalExecutionIdentityRetry", "internalExecutionIdentityRecoveryAttempt",
			"execApprovalFollowupExpectedSessionId", "internalEvents", "inputProvenance", "suppressPromptPersistence", "sessionEffects",
			"sourceReplyDeliveryMode", "disableMessageTool", "swarmCollector", "swarmOutputSchema", "forceRestartSafeTools", "forceCodeModeTools"),
	)}
	ShapeAgentWait = &Shape{MethodAgentWait, []field{must("runId"), count("timeoutMs")}}
	ShapeSubscribe = &Shape{MethodSubscribe, []field{must("key"), may("agentId"), flag("includeApprovals")}}
)

func anyOf(names ...string) []field {
	fields := make([]field, len(names))
	for i, name := range names {
		fields[i].name = name
	}
	return fields
}
