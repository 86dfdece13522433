/** The secret of every delivery here: base64, because svix and standardwebhooks take no other. */
export const SECRET = 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw';
