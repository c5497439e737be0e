package gateway

// mediaTable has the commands of cameras and screens, with the parameters that OpenClaw's command
// line and its agent send (src/cli/nodes-camera, src/agents/tools/nodes-tool-media.ts) and that its
// apps read (apps/shared/OpenClawKit/Sources/OpenClawKit: CameraCommands.swift,
// ScreenCommands.swift).
var mediaTable = map[string]knownCommand{
	"camera.list": {"Lists the cameras of the device.", paramsSchema()},
	"camera.snap": {`Takes a picture with a camera of the device. Example: {"facing":"back","maxWidth":1200}`,
		paramsSchema(cameraFacing, textParam("deviceId", aboutCamera), intParam("maxWidth", aboutWidth, 1, 0),
			numberParam("quality", aboutQuality, "0", "1"), choiceParam("format", "", "jpg", "jpeg"),
			intParam("delayMs", "How long to wait before, in milliseconds.", 0, 0))},
	"camera.clip": {`Records a short video with a camera of the device. Example: {"facing":"back","durationMs":3000}`,
		paramsSchema(cameraFacing, textParam("deviceId", aboutCamera), intParam("durationMs", aboutLength, 1, 300_000),
			flagParam("includeAudio", aboutAudio), choiceParam("format", "", "mp4"))},
	"camera.ptz.status": {"Returns the direction of a camera of the device.",
		paramsSchema(textParam("deviceId", aboutMovable).needed())},
	"camera.ptz.control": {`Pans, tilts and zooms a camera of the device. Example: {"deviceId":"cam1","operation":"move","delta":{"panDegrees":10}}`,
		paramsSchema(textParam("deviceId", aboutMovable).needed(),
			choiceParam("operation", "set takes target, move takes delta, home neither.", "set", "move", "home").needed(),
			objectParam("target", "Where to, for set.", cameraAxes...), objectParam("delta", "How far, for move.", cameraAxes...))},
	"screen.record": {`Records the screen of the device. Example: {"durationMs":10000,"fps":10}`,
		paramsSchema(intParam("durationMs", aboutLength, 1, 300_000), numberParam("fps", "Pictures per second.", "1", ""),
			intParam("screenIndex", aboutScreen, 0, 0), flagParam("includeAudio", aboutAudio),
			choiceParam("format", "", "mp4"))},
	"screen.snapshot": {`Takes a picture of the screen of the device. Example: {"maxWidth":1600}`,
		paramsSchema(intParam("screenIndex", aboutScreen, 0, 0), intParam("maxWidth", aboutWidth, 1, 0),
			choiceParam("format", "", "jpeg", "png"))},
	"canvas.present": {`Shows a page on the device. Example: {"url":"https://example.com"}`,
		paramsSchema(textParam("url", "Address of the page."), objectParam("placement", "Where, in pixels.",
			numberParam("x", "", "", ""), numberParam("y", "", "", ""), numberParam("width", "", "0", ""),
			numberParam("height", "", "0", "")))},
	"canvas.navigate": {`Shows another page on the device. Example: {"url":"https://example.com"}`,
		paramsSchema(textParam("url", "Address of the page.").needed())},
	"canvas.hide":     {"Hides the page on the device.", paramsSchema()},
	"talk.ptt.start":  {"Starts to listen at the device, until talk.ptt.stop.", paramsSchema()},
	"talk.ptt.stop":   {"Stops listening at the device, and returns what was said.", paramsSchema()},
	"talk.ptt.cancel": {"Stops listening at the device, and forgets what was said.", paramsSchema()},
	"talk.ptt.once":   {"Listens at the device for one sentence, and returns it.", paramsSchema()},
}

const aboutMovable = "Id of the camera, from camera.list."

var (
	cameraFacing = choiceParam("facing", "Which camera.", "front", "back")
	cameraAxes   = []parameter{numberParam("panDegrees", "", "", ""), numberParam("tiltDegrees", "", "", ""),
		numberParam("zoomPercent", "", "", "")}
)

// phoneTable has the commands of phones and watches, with the parameters that OpenClaw's apps read
// (apps/shared/OpenClawKit/Sources/OpenClawKit/…Commands.swift;
// apps/android/app/src/main/java/ai/openclaw/app/node/…Handler.kt).
var phoneTable = map[string]knownCommand{
	"location.get": {`Returns the location of the device. Example: {"desiredAccuracy":"balanced"}`,
		paramsSchema(choiceParam("desiredAccuracy", "", "coarse", "balanced", "precise"),
			intParam("maxAgeMs", "How old a known location may be, in milliseconds.", 0, 0),
			intParam("timeoutMs", aboutTimeout, 1, 0))},
	"device.info":        {"Returns information about the device.", paramsSchema()},
	"device.status":      {"Returns the status of the device: battery, storage, network.", paramsSchema()},
	"device.permissions": {"Returns the permissions of the program on the device.", paramsSchema()},
	"device.health":      {"Returns the health status of the device.", paramsSchema()},
	"contacts.search": {`Searches the contacts on the device. Example: {"query":"Ada","limit":5}`,
		paramsSchema(textParam("query", "Part of a name, a number or an address."), intParam("limit", aboutLimit, 1, 200))},
	"contacts.add": {`Adds a contact on the device. Example: {"givenName":"Ada","phoneNumbers":["+15550100"]}`,
		paramsSchema(textParam("givenName", ""), textParam("familyName", ""), textParam("organizationName", ""),
			textParam("displayName", ""), listParam("phoneNumbers", ""), listParam("emails", ""))},
	"calendar.events": {`Lists events in the calendar of the device. Example: {"startISO":"2026-11-27T00:00:00Z","endISO":"2026-11-28T00:00:00Z"}`,
		paramsSchema(textParam("startISO", aboutStart), textParam("endISO", aboutEnd), intParam("limit", aboutLimit, 1, 500))},
	"calendar.add": {`Adds an event to the calendar of the device. Example: {"title":"Dentist","startISO":"2026-11-27T09:00:00Z","endISO":"2026-11-27T10:00:00Z"}`,
		paramsSchema(textParam("title", "").needed(), textParam("startISO", aboutStart).needed(),
			textParam("endISO", aboutEnd).needed(), flagParam("isAllDay", ""), textParam("location", ""),
			textParam("notes", ""), textParam("calendarId", ""), textParam("calendarTitle", ""))},
	"reminders.list": {`Lists the reminders on the device. Example: {"status":"incomplete"}`,
		paramsSchema(choiceParam("status", "", "incomplete", "completed", "all"), intParam("limit", aboutLimit, 1, 500))},
	"reminders.add": {`Adds a reminder on the device. Example: {"title":"Buy milk","dueISO":"2026-11-27T18:00:00Z"}`,
		paramsSchema(textParam("title", "").needed(), textParam("dueISO", "When it is due, such as 2026-11-27T18:00:00Z."),
			textParam("notes", ""), textParam("listId", ""), textParam("listName", ""))},
	"callLog.search": {`Searches the call log of the device. Example: {"cachedName":"Ada","limit":10}`,
		paramsSchema(textParam("cachedName", "Part of a name."), textParam("number", "Part of a phone number."),
			intParam("dateStart", aboutNotBefore, 0, 0), intParam("dateEnd", aboutNotAfter, 0, 0),
			intParam("type", "1 is incoming, 2 is outgoing, 3 is missed.", 1, 7), intParam("limit", aboutLimit, 1, 200), intParam("offset", aboutOffset, 0, 0))},
	"sms.send": {`Sends a text message from the device. Example: {"to":"+15550100","message":"On my way"}`,
		paramsSchema(textParam("to", "Phone number, with the country code.").needed(), textParam("message", "").needed())},
	"sms.search": {`Searches the text messages on the device. Example: {"keyword":"delivery","limit":10}`,
		paramsSchema(textParam("keyword", "Part of the text."), textParam("phoneNumber", "Part of a phone number."),
			textParam("contactName", "Part of a name."), intParam("startTime", aboutNotBefore, 0, 0),
			intParam("endTime", aboutNotAfter, 0, 0),
			intParam("type", "1 is received, 2 is sent, 3 is a draft.", 1, 6), flagParam("isRead", ""),
			intParam("limit", aboutLimit, 1, 200), intParam("offset", aboutOffset, 0, 0))},
	"photos.latest": {`Shows the latest photos on the device. Example: {"limit":1,"maxWidth":1200}`,
		paramsSchema(intParam("limit", aboutLimit, 1, 20), intParam("maxWidth", aboutWidth, 1, 0),
			numberParam("quality", aboutQuality, "0", "1"))},
	"motion.activity": {"Returns how the device was moved: walking, running, cycling, driving, at rest.",
		paramsSchema(textParam("startISO", aboutStart), textParam("endISO", aboutEnd), intParam("limit", aboutLimit, 1, 1000))},
	"motion.pedometer": {"Returns the number of steps counted by the device.",
		paramsSchema(textParam("startISO", aboutStart), textParam("endISO", aboutEnd))},
	"health.summary": {`Returns health data of the device's owner. Example: {"period":"today"}`,
		paramsSchema(choiceParam("period", "", "today", "7d", "30d").needed())},
	"notifications.list": {"Lists the notifications on the device.", paramsSchema()},
	"notifications.actions": {`Performs an action on a notification of the device. Example: {"key":"0|com.example|1","action":"dismiss"}`,
		paramsSchema(textParam("key", "The key of the notification, from notifications.list.").needed(),
			choiceParam("action", "", "open", "dismiss", "reply").needed(),
			textParam("replyText", "What to reply, for reply."))},
	"mobile.ui.observe": {"Reads the contents of the phone's screen: returns snapshotId, and what is shown, each with a ref.",
		paramsSchema()},
	"mobile.ui.act": {`Performs an action on the screen of the phone. Call mobile.ui.observe first. Examples of action: {"type":"activate","ref":"n3"}, {"type":"set_text","ref":"n4","text":"hello"}, {"type":"global_action","name":"back"}`,
		paramsSchema(textParam("snapshotId", "snapshotId that mobile.ui.observe returned last.").needed(),
			objectParam("action", "One action, with what its type needs.",
				choiceParam("type", "", "activate", "set_text", "scroll", "tap", "swipe", "global_action", "wait").needed(),
				textParam("ref", "ref of what is shown, for activate, set_text and scroll."), textParam("text", ""),
				choiceParam("direction", "", "forward", "backward"), intParam("x", "", 0, 0), intParam("y", "", 0, 0),
				intParam("x1", "", 0, 0), intParam("y1", "", 0, 0), intParam("x2", "", 0, 0), intParam("y2", "", 0, 0),
				intParam("durationMs", "How long a swipe takes, in milliseconds.", 1, 60_000),
				choiceParam("name", "", "back", "home", "recents", "notifications"),
				intParam("ms", "How long to wait, in milliseconds.", 0, 100_000)).needed())},
	"watch.status": {"Returns the status of the watch.", paramsSchema()},
	"watch.notify": {`Shows a notification on the watch. Example: {"title":"Oven","body":"The cake is done"}`,
		paramsSchema(textParam("title", "").needed(), textParam("body", "").needed(),
			choiceParam("priority", "", "passive", "active", "timeSensitive"))},
}

const (
	aboutOffset    = "How many to skip."
	aboutNotBefore = "Not before, in milliseconds since 1970."
	aboutNotAfter  = "Not after, in milliseconds since 1970."
)
