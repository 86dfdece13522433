/** AWS Lambda: one handler that is of the type of each of the four HTTP events. */
import type {
  ALBEvent,
  ALBResult,
  APIGatewayProxyEvent,
  APIGatewayProxyEventV2,
  APIGatewayProxyResult,
  APIGatewayProxyStructuredResultV2,
  LambdaFunctionURLEvent,
} from 'aws-lambda';
import { toLambdaHandler } from 'stablehooks/lambda';
import { createContractReceiver } from './contract-receiver.js';

export const handler = toLambdaHandler(createContractReceiver());

handler satisfies (event: APIGatewayProxyEvent) => Promise<APIGatewayProxyResult>;
handler satisfies (event: APIGatewayProxyEventV2) => Promise<APIGatewayProxyStructuredResultV2>;
handler satisfies (event: LambdaFunctionURLEvent) => Promise<APIGatewayProxyStructuredResultV2>;
handler satisfies (event: ALBEvent) => Promise<ALBResult>;
