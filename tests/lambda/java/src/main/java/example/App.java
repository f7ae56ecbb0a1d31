package example;

import com.amazonaws.services.lambda.runtime.Context;
import com.amazonaws.services.lambda.runtime.RequestHandler;
import java.util.Map;

/** A function of AWS Lambda for the tests, with no word about Pilotlight. */
public final class App implements RequestHandler<Map<String, Object>, Map<String, Object>> {
    @Override
    public Map<String, Object> handleRequest(Map<String, Object> event, Context context) {
        if ("/error".equals(event.get("rawPath"))) {
            throw new IllegalStateException("not today");
        }
        String body = event.get("rawPath") + " " + event.get("body") + " " + context.getAwsRequestId();
        return Map.of("statusCode", 201, "headers", Map.of("content-type", "text/plain"), "body", body);
    }
}
